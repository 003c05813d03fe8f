"""Becoming the controller, and writing as the controller only.

The seat is the ephemeral `/controller`; it is taken in one multi with raising `/controller_epoch`, so that the epoch
znode's version (`epoch_zk_version`) is the fencing token: every write of a controller goes in a multi with a check of
that version, and fails for good once another controller was elected. The epoch znode's data is what travels in requests
to brokers; version and data usually differ. `/controller_epoch` is never deleted.
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
from zk.znodes import ControllerEpoch, ControllerSeat

logger = logging.getLogger(__name__)


class ControllerMovedError(Exception):
    """This broker is not the controller any more: another one was elected since."""


@dataclass(frozen=True, slots=True)
class Seat:
    """The right to act as controller: `epoch` for requests, `epoch_zk_version` for writes.

    `earlier_zxid` is that of the election before this one, 0 where it is not known.
    """

    epoch: int
    epoch_zk_version: int
    earlier_zxid: int = field(default=0, compare=False)


async def read_controller(store: Store, watcher: Watcher | None = None) -> ControllerSeat | None:
    """Who sits in `/controller`, None when it is vacant; the watch fires at any change, of a vacant seat too."""
    found = await _read_seat(store, watcher)
    return None if found is None else found[0]


async def elect(store: Store, broker_id: int, now_ms: int) -> Seat | None:
    """Take the seat if it is vacant; None when another broker has it or was faster.

    A seat that this very session holds, though its owner asks for one, stems from a claim whose answer nobody took: it is
    given up and claimed again.
    """
    found = await _read_seat(store)
    if found is not None:
        if found[1].ephemeral_owner != store.session_id:
            return None
        logger.warning("giving up %s, which this session holds without knowing the epoch", paths.CONTROLLER)
        await _delete_own_seat(store, found[1])
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
    """Give the seat up so that all brokers elect again. ControllerMovedError when it is another's already."""
    (result,) = await FencedWriter(store, seat).write([Delete(paths.CONTROLLER)])
    if isinstance(result, StoreError) and not isinstance(result, NoNodeError):
        raise result


class FencedWriter:
    """Writes that ZooKeeper carries out only as long as the seat is ours."""

    def __init__(self, store: Store, seat: Seat) -> None:
        self._store = store
        self.seat = seat
        self._check = Check(paths.CONTROLLER_EPOCH, seat.epoch_zk_version)

    async def write(self, operations: Sequence[Operation]) -> list[Result]:
        """Independent writes, pipelined, each in a multi of its own; one result for each, as of `Store.multi`.

        A Create or Write that fails on exactly what it wanted to write counts as done: its earlier reply was lost.
        Raises ControllerMovedError when any was refused because of the epoch; others may have been carried out.
        """
        return list(await asyncio.gather(*(self._write_one(operation) for operation in operations)))

    async def write_together(self, operations: Sequence[Operation]) -> list[Result]:
        """All or nothing. Raises ControllerMovedError."""
        if not operations:
            return []
        check, *results = await self._store.multi([self._check, *operations])
        self._ensure_seated(check)
        return results

    async def _write_one(self, operation: Operation) -> Result:
        check, result = await self._store.multi([self._check, operation])
        self._ensure_seated(check)
        if isinstance(operation, Create) and isinstance(result, NodeExistsError):
            return await self._created_before(operation, result)
        if isinstance(operation, Write) and isinstance(result, BadVersionError):
            return await self._written_before(operation, result)
        return result

    def _ensure_seated(self, check: Result) -> None:
        if isinstance(check, StoreError) and not isinstance(check, RolledBackError):
            raise ControllerMovedError(f"epoch {self.seat.epoch} is over: {check}")

    async def _created_before(self, operation: Create, refusal: StoreError) -> Result:
        """Empty data proves nothing, and matters to nobody."""
        if not operation.data or operation.sequence:
            return refusal
        found = await self._read(operation.path)
        return operation.path if found is not None and found[0] == operation.data else refusal

    async def _written_before(self, operation: Write, refusal: StoreError) -> Result:
        found = await self._read(operation.path)
        if found is None or found[0] != operation.data or found[1].version != operation.version + 1:
            return refusal
        return found[1]

    async def _read(self, path: str) -> tuple[bytes, Stat] | None:
        try:
            return await self._store.read(path)
        except NoNodeError:
            return None


async def _read_seat(store: Store, watcher: Watcher | None = None) -> tuple[ControllerSeat, Stat] | None:
    while True:
        try:
            data, stat = await store.read(paths.CONTROLLER, watcher)
            return ControllerSeat.decode(data), stat
        except NoNodeError:
            if await store.exists(paths.CONTROLLER, watcher) is None:
                return None


async def _delete_own_seat(store: Store, stat: Stat) -> None:
    try:
        await store.delete(paths.CONTROLLER, stat.version)
    except NoNodeError:
        pass


async def _read_or_create_epoch(store: Store) -> tuple[int, Stat]:
    """Epoch and the znode's stat; the znode starts at 0, so that the first controller has epoch 1."""
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
    """The claim was refused; was it carried out before, and only its reply lost?"""
    found = await _read_seat(store)
    if found is None or found[1].ephemeral_owner != store.session_id:
        return None
    epoch, stat = await _read_or_create_epoch(store)
    return Seat(epoch, stat.version) if epoch == claimed.epoch else None
