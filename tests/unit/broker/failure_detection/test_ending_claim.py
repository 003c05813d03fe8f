"""The claim to end a session: one broker of the cluster has it, for a short time, and none keeps it from the others for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkalite.broker.failure_detection.ending_claim import VALID_S, EndingClaim
from kafkalite.testing.simulation import virtual_time
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import StoreError

HELD_S = 0.25


def play(scenario: Callable[[MemoryStore, MemoryStore], Awaitable[None]]) -> None:
    async def whole() -> None:
        zookeeper = MemoryZooKeeper()
        stores = MemoryStore(zookeeper), MemoryStore(zookeeper)
        for store in stores:
            await store.start(1)
        await scenario(*stores)

    virtual_time.run(whole())


def test_one_of_two_has_it_and_the_other_after_a_pause() -> None:
    async def scenario(one: MemoryStore, other: MemoryStore) -> None:
        first, second = EndingClaim(one), EndingClaim(other)
        began_s = asyncio.get_running_loop().time()
        assert await first.take(0) and await first.is_valid()
        assert not await second.take(0) and not await first.take(0)
        await first.give_back(HELD_S)
        assert asyncio.get_running_loop().time() - began_s >= HELD_S
        assert not first.is_held and await second.take(0)
        await second.give_back()
        assert await first.take(0), "nothing was ended, so nobody has to wait"

    play(scenario)


def test_who_has_it_for_long_ends_nothing_any_more_and_loses_it() -> None:
    async def scenario(one: MemoryStore, other: MemoryStore) -> None:
        first, second = EndingClaim(one), EndingClaim(other)
        assert await first.take(0)
        await asyncio.sleep(VALID_S)
        assert not await first.is_valid() and first.is_held
        assert not await second.take(0)
        await asyncio.sleep(7.9)
        assert not await second.take(0), "it has been seen for 7.9 s"
        await asyncio.sleep(0.2)
        assert await second.take(0), "the other one was taken away"
        await first.give_back()
        assert not first.is_held and not await EndingClaim(one).take(0), (
            "a deletion that comes late hits no other claim"
        )

    play(scenario)


def test_a_claim_of_the_broker_that_is_taken_for_dead_does_not_count() -> None:
    async def scenario(one: MemoryStore, other: MemoryStore) -> None:
        first, second = EndingClaim(one), EndingClaim(other)
        assert await first.take(0)
        assert not await second.take(one.session_id + 1) and await second.take(one.session_id)

    play(scenario)


def test_a_claim_that_may_have_been_made_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(one: MemoryStore, other: MemoryStore) -> None:
        create = one.create

        async def create_without_answer(path: str, data: bytes = b"", **options: bool) -> str:
            await create(path, data, **options)
            raise StoreError("the connection was lost")

        monkeypatch.setattr(one, "create", create_without_answer)
        first, second = EndingClaim(one), EndingClaim(other)
        with pytest.raises(StoreError):
            await first.take(0)
        assert first.is_held and not await second.take(0)
        await first.give_back()
        assert not first.is_held and await second.take(0)

    play(scenario)


def test_a_store_that_is_closed_is_not_asked_for_ever() -> None:
    async def scenario(one: MemoryStore, other: MemoryStore) -> None:
        first = EndingClaim(one)
        assert await first.take(0)
        await one.close()
        async with asyncio.timeout(5):
            await first.give_back(HELD_S)
        assert not first.is_held

    play(scenario)
