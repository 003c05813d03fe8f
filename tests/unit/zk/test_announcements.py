"""A change and its notice: both or none, once, whatever is lost on the way. `tests/contract` has that multis are so on real servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from kafkalite.testing.simulation import virtual_time
from zk.announcements import change_and_announce
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import (
    BadVersionError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Result,
    SessionExpiredError,
    StoreError,
    Write,
)

NOTICE = Create("/changes/change_", b"told", sequence=True)


class LosesAnswers(MemoryStore):
    """The connection is lost between a transaction and its answer, as many times as `losses` says."""

    losses = 0

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        if self.losses:
            self.losses -= 1
            await super().multi(operations)
            await asyncio.sleep(1)
        return await super().multi(operations)


def lived(scenario: Callable[[LosesAnswers], Awaitable[None]]) -> None:
    async def life() -> None:
        store = LosesAnswers(MemoryZooKeeper())
        await store.start(1)
        await store.create("/a/b", b"before", parents=True)
        await scenario(store)

    virtual_time.run(life())


async def notices(store: MemoryStore) -> int:
    try:
        return len(await store.children("/changes"))
    except NoNodeError:
        return 0


@pytest.mark.parametrize("losses", [0, 1, 2])
@pytest.mark.parametrize(
    "change", [Create("/a/new", b"x"), Create("/c/d/e", b"x"), Write("/a/b", b"x", 0), Delete("/a/b", 0)], ids=str
)
def test_a_change_is_announced_once_however_often_its_answer_is_lost(
    change: Create | Write | Delete, losses: int
) -> None:
    async def scenario(store: LosesAnswers) -> None:
        await store.create("/changes")
        if change.path.startswith("/c"):
            await store.create("/c/d", parents=True)
        store.losses = losses
        await change_and_announce(store, change, NOTICE)
        there = await store.exists(change.path)
        assert (there is None) == isinstance(change, Delete)
        assert await notices(store) == 1

    lived(scenario)


def test_what_is_above_is_made_too() -> None:
    async def scenario(store: LosesAnswers) -> None:
        await change_and_announce(store, Create("/c/d/e", b"x"), NOTICE)
        assert (await store.read("/c/d/e"))[0] == b"x"
        assert await notices(store) == 1

    lived(scenario)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (Create("/a/b", b"other"), NodeExistsError),
        (Write("/a/b", b"x", 7), BadVersionError),
        (Write("/a/none", b"x", 0), NoNodeError),
        (Delete("/a/b", 7), BadVersionError),
        (Delete("/a", 0), NotEmptyError),
    ],
    ids=str,
)
def test_what_is_refused_is_not_announced(change: Create | Write | Delete, refusal: type[StoreError]) -> None:
    async def scenario(store: LosesAnswers) -> None:
        await store.create("/changes")
        with pytest.raises(refusal):
            await change_and_announce(store, change, NOTICE)
        assert await notices(store) == 0

    lived(scenario)


def test_when_the_session_ends_both_are_there_or_none() -> None:
    async def scenario(store: LosesAnswers) -> None:
        await store.create("/changes")
        store.server.latency_s = lambda: 1.0
        asking = asyncio.ensure_future(change_and_announce(store, Write("/a/b", b"x", 0), NOTICE))
        await asyncio.sleep(0.5)
        store.expire_session()
        with pytest.raises(SessionExpiredError):
            await asking
        await asyncio.sleep(5)
        is_written = (await store.read("/a/b"))[0] == b"x"
        assert await notices(store) == int(is_written)

    lived(scenario)
