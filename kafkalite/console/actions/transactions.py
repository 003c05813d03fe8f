"""Hanging transactions aborted in one partition."""

from __future__ import annotations

from functools import partial

from kafkalite import NAME
from kafkalite.console.actions.plan import Plan, Scene, parse_partitions
from kafkalite.console.parameters import BadRequestError


async def plan_abort(scene: Scene) -> Plan:
    """Plan an abort marker for the transaction that begins at `start_offset` of `partition`."""
    places = parse_partitions(scene.asked.text("partition"), "partition")
    if len(places) != 1:
        raise BadRequestError("name one partition, like orders-0")
    (place,) = places
    start = scene.asked.number("start_offset", -1)
    known = (await scene.admin.describe_producers([place]))[place]
    found = next((each for each in known if each.transaction_start_offset == start), None)
    if found is None:
        raise BadRequestError(f"no open transaction begins at offset {start} of {place}; it may have ended meanwhile")
    row = {
        "partition": str(place),
        "start_offset": start,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "last_timestamp": found.last_timestamp,
    }
    return Plan(
        tuple(row),
        [row],
        ((NAME, "transaction", "abort", str(place), "--start-offset", str(start), "--yes"),),
        partial(scene.admin.abort_transaction, place, found),
        (
            "Its records in this partition are never read by consumers of committed records. Of a transaction that its coordinator "
            "still knows this makes a half: abort only what hangs.",
        ),
        confirm=str(place),
    )
