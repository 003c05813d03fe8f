"""Election of the controller, and its fenced writes.

The seat is the ephemeral `/controller`, created in one multi with raising `/controller_epoch`. The epoch znode's version
(`epoch_zk_version`) is the fencing token: every write of a controller is a multi with a check of that version, and fails
once another controller was elected. The epoch znode's data is the controller epoch in requests to brokers; version and data
usually differ. `/controller_epoch` is never deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from zk import paths
from zk.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Operation,
    Result,
    RolledBackError,
    Stat,
    Store,
    StoreError,
    Watcher,
    Write,
)
from zk.subtree import delete_if_there, read_if_there, read_or_watch
from zk.znodes import ControllerEpoch, ControllerSeat

logger = logging.getLogger(__name__)


class ControllerMovedError(Exception):
    """Raised when another controller was elected since."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A won election: `epoch` for requests, `epoch_zk_version` for writes.

    `earlier_zxid` is the zxid of the election before this one, 0 if it is unknown.
    """

    epoch: int
    epoch_zk_version: int
    earlier_zxid: int = field(default=0, compare=False)


async def read_controller(store: Store, watcher: Watcher | None = None) -> ControllerSeat | None:
    """Return the content of `/controller`, None when it is absent; the watch fires at any change, also a creation."""
    found = await _read_seat(store, watcher)
    return None if found is None else found[0]


async def elect(store: Store, broker_id: int, now_ms: int) -> Seat | None:
    """Create `/controller` if it is absent; None when another broker has it or was faster.

    One that this session owns already stems from a claim whose reply was lost: it is deleted and claimed again.
    """
    found = await _read_seat(store)
    if found is not None:
        if found[1].ephemeral_owner != store.session_id:
            return None
        logger.warning("deleting %s, which this session owns without knowing the epoch", paths.CONTROLLER)
        await delete_if_there(store, paths.CONTROLLER, found[1].version)
    epoch, stat = await _read_or_create_epoch(store)
    claimed = Seat(epoch + 1, stat.version + 1)
    results = await store.multi(
        [
            Create(paths.CONTROLLER, ControllerSeat(broker_id, now_ms).encode(), ephemeral=True),
            Write(paths.CONTROLLER_EPOCH, ControllerEpoch(claimed.epoch).encode(), stat.version),
        ]
    )
    if isinstance(results[1], Stat):
        return Seat(claimed.epoch, results[1].version, stat.mzxid)
    failure = next(result for result in results if not isinstance(result, RolledBackError))
    if not isinstance(failure, NodeExistsError | BadVersionError):
        raise failure if isinstance(failure, StoreError) else StoreError(paths.CONTROLLER, f"unexpected {failure!r}")
    return await _claim_with_lost_reply(store, claimed)


async def vacate(store: Store, seat: Seat) -> None:
    """Delete `/controller` so that all brokers elect again. Raises ControllerMovedError."""
    (result,) = await FencedWriter(store, seat).write([Delete(paths.CONTROLLER)])
    if isinstance(result, StoreError) and not isinstance(result, NoNodeError):
        raise result


class FencedWriter:
    """Writes with a check of the controller epoch's version."""

    def __init__(self, store: Store, seat: Seat) -> None:
        self._store = store
        self.seat = seat
        self._check = Check(paths.CONTROLLER_EPOCH, seat.epoch_zk_version)

    async def write(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out independent writes, pipelined, each in a multi of its own; one result for each, as of `Store.multi`.

        A Create or Write that finds its own data succeeded before, and its reply was lost. Raises ControllerMovedError when
        any was refused because of the epoch; others may have been carried out.
        """
        return list(await asyncio.gather(*(self._write_one(operation) for operation in operations)))

    async def write_together(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out all operations in one multi, or none. Raises ControllerMovedError."""
        if not operations:
            return []
        check, *results = await self._store.multi([self._check, *operations])
        self._ensure_seated(check)
        return results

    async def _write_one(self, operation: Operation) -> Result:
        check, result = await self._store.multi([self._check, operation])
        self._ensure_seated(check)
        if isinstance(operation, Create) and isinstance(result, NodeExistsError):
            # Without data it cannot be told whether an earlier attempt created the znode, and does not matter.
            if operation.data and not operation.sequence:
                found = await read_if_there(self._store, operation.path)
                return operation.path if found is not None and found[0] == operation.data else result
        elif isinstance(operation, Write) and isinstance(result, BadVersionError):
            found = await read_if_there(self._store, operation.path)
            if found is not None and found[0] == operation.data and found[1].version == operation.version + 1:
                return found[1]
        return result

    def _ensure_seated(self, check: Result) -> None:
        if isinstance(check, StoreError) and not isinstance(check, RolledBackError):
            raise ControllerMovedError(f"epoch {self.seat.epoch} is over: {check}")


async def _read_seat(store: Store, watcher: Watcher | None = None) -> tuple[ControllerSeat, Stat] | None:
    found = await read_or_watch(store, paths.CONTROLLER, watcher)
    return None if found is None else (ControllerSeat.decode(found[0]), found[1])


async def _read_or_create_epoch(store: Store) -> tuple[int, Stat]:
    """Return the epoch and its znode's stat; the znode starts at 0, so the first controller has epoch 1."""
    try:
        data, stat = await store.read(paths.CONTROLLER_EPOCH)
    except NoNodeError:
        try:
            await store.create(paths.CONTROLLER_EPOCH, ControllerEpoch(0).encode())
        except NodeExistsError:
            pass
        data, stat = await store.read(paths.CONTROLLER_EPOCH)
    return ControllerEpoch.decode(data).epoch, stat


async def _claim_with_lost_reply(store: Store, claimed: Seat) -> Seat | None:
    """Return the seat if the refused claim was carried out by an earlier attempt whose reply was lost."""
    found = await _read_seat(store)
    if found is None or found[1].ephemeral_owner != store.session_id:
        return None
    epoch, stat = await _read_or_create_epoch(store)
    return Seat(epoch, stat.version) if epoch == claimed.epoch else None
