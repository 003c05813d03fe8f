"""Finds a move of the cluster from ZooKeeper to KRaft that goes on, or what is left of one (KIP-866), for `kafkalite doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.cli.doctor.findings import Finding, ok, problem
from zk import paths
from zk.subtree import read_if_there
from zk.znodes import ControllerSeat, KraftMigration, MalformedZnodeError

if TYPE_CHECKING:
    from zk.store import Store

CHECK: Final = "kraft"
_REMEDY: Final = (
    f"when no KRaft controller runs any more: zookeeper-shell SERVER delete {paths.MIGRATION}; "
    "the next move to KRaft would take it for its own, and not copy what has changed since"
)


async def check_kraft(store: Store, chroot: str = "") -> Finding:
    """Return the finding about `/controller` and `/migration`. Raises StoreError."""
    seat, migration = [await read_if_there(store, chroot + each) for each in (paths.CONTROLLER, paths.MIGRATION)]
    return judge(None if seat is None else seat[0], None if migration is None else migration[0])


def judge(seat: bytes | None, migration: bytes | None) -> Finding:
    """Judge the data of `/controller` and `/migration`, None for one that is absent. Pure."""
    try:
        owner = None if seat is None else ControllerSeat.decode(seat)
    except MalformedZnodeError as malformed:
        remedy = f"see who wrote {paths.CONTROLLER}; without it brokers elect a controller"
        return problem(CHECK, str(malformed), remedy)
    if owner is not None and owner.is_of_kraft:
        return problem(
            CHECK,
            f"controller {owner.broker_id} of a KRaft quorum (epoch {owner.kraft_controller_epoch}) owns the cluster",
            "finish the move to KRaft or go back as its documentation says; until then leave this cluster's znodes and brokers alone",
        )
    if migration is None:
        return ok(CHECK, "no move to KRaft goes on, or has left anything")
    try:
        state = KraftMigration.decode(migration)
    except MalformedZnodeError as malformed:
        return problem(CHECK, str(malformed), _REMEDY)
    where = f"controller {state.controller_id}, epoch {state.controller_epoch}, metadata offset {state.metadata_offset}"
    return problem(CHECK, f"{paths.MIGRATION} is left of a move to KRaft ({where})", _REMEDY)
