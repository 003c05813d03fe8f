"""The check of `kafkalite doctor` on transactions that stay open: readers of committed records wait for their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.cli.doctor.findings import Finding, join_first, ok, problem, warning
from kafkalite.timestamps import timestamp_text

if TYPE_CHECKING:
    from kafkalite.client import Admin, HangingTransaction, TransactionDescription

CHECK: Final = "transactions"
_OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
_LONG_MS: Final = 60_000
"""Most transactions take milliseconds to seconds."""
_DESCRIBED: Final = 100
"""Open transactions that are looked at: of more, the first ones tell as much."""


async def check_transactions(admin: Admin, now_ms: int) -> list[Finding]:
    """Return the findings about transactions that are open for long, and about those that no coordinator will end. Raises ClientError."""
    from kafkalite.administration.group_offsets import partitions_of
    from kafkalite.client.errors import AdminError

    ids = [each.transactional_id for each in await admin.list_transactions(_OPEN_STATES)]
    try:
        described = list((await admin.describe_transactions(ids[:_DESCRIBED])).values())
    except AdminError as failed:  # some have ended meanwhile
        described = list(failed.done.values())
    topics = await admin.describe_topics(await admin.list_topics(include_internal=True))
    return judge(described, await admin.find_hanging_transactions(partitions_of(topics)), now_ms)


def judge(
    described: Sequence[TransactionDescription], hanging: Sequence[HangingTransaction], now_ms: int
) -> list[Finding]:
    """Return a finding for each transaction that lasts; one finding when none does."""
    findings = [_judge_hanging(each) for each in hanging]
    for each in described:
        if each.state in _OPEN_STATES and each.start_time_ms is not None and now_ms - each.start_time_ms > _LONG_MS:
            findings.append(_judge_open(each, each.start_time_ms))
    return findings or [ok(CHECK, "none hangs, and none is open for more than a minute")]


def _judge_hanging(found: HangingTransaction) -> Finding:
    place, producer = found.topic_partition, found.producer
    return problem(
        CHECK,
        f"{place}: no coordinator will end the transaction of producer {producer.producer_id} that is open since offset "
        f"{producer.transaction_start_offset}, last written at {timestamp_text(producer.last_timestamp)}",
        "readers of committed records wait there for ever: "
        f"kafkalite transaction abort {place} --start-offset {producer.transaction_start_offset}",
    )


def _judge_open(found: TransactionDescription, start_ms: int) -> Finding:
    where = f" in {join_first([str(each) for each in sorted(found.partitions)])}" if found.partitions else ""
    since = f"{found.transactional_id} is {found.state} since {timestamp_text(start_ms)}{where}"
    if found.state != "Ongoing":
        remedy = "its end cannot be written there: see that these partitions have leaders: kafkalite topic describe --unavailable"
        return problem(CHECK, since, remedy)
    return warning(
        CHECK,
        since,
        "readers of committed records wait for it: have its producer commit or abort, or stop it; its coordinator aborts it "
        f"after its transaction.timeout.ms ({found.timeout_ms} ms)",
    )
