"""A real ZooKeeper with a small `jute.maxbuffer`: what it takes, and that a store which knows it asks for no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kafkalite.cli.doctor.znode_sizes import takes_request
from zk.kazoo_adapter.kazoo_multi_read import Found, MultiRead
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.request_errors import TooLargeError
from zk.servers.ensemble import Ensemble
from zk.size_limits import list_bytes, operation_bytes, split_operations
from zk.store import Create, RolledBackError, SessionState

LIMIT_BYTES = 20_000
TIMEOUT_S = 30


@pytest.fixture
def with_store(
    java: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[KazooStore, Ensemble], Awaitable[None]]], None]:
    monkeypatch.setenv("SERVER_JVMFLAGS", f"-Djute.maxbuffer={LIMIT_BYTES}")

    def run(work: Callable[[KazooStore, Ensemble], Awaitable[None]]) -> None:
        async def scenario() -> None:
            ensemble = Ensemble(tmp_path, force_sync=False)
            await ensemble.start(TIMEOUT_S)
            store = KazooStore(ensemble.connect, 20.0, max_request_bytes=LIMIT_BYTES)
            await store.start(TIMEOUT_S)
            states: list[SessionState] = []
            store.add_session_listener(states.append)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await work(store, ensemble)
                assert states == [], "no connection was lost"
            finally:
                await store.close()
                await ensemble.stop()

        asyncio.run(scenario())

    return run


def test_what_is_too_large_is_not_sent_and_what_fits_is_taken(
    with_store: Callable[[Callable[[KazooStore, Ensemble], Awaitable[None]]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    responses: list[int] = []
    decode = MultiRead.deserialize.__func__  # type: ignore[attr-defined]

    def measure(kind: type[MultiRead], answer: bytes, offset: int) -> list[Found]:
        responses.append(len(answer))
        found: list[Found] = decode(kind, answer, offset)
        return found

    monkeypatch.setattr(MultiRead, "deserialize", classmethod(measure))

    async def work(store: KazooStore, ensemble: Ensemble) -> None:
        largest = b"x" * (LIMIT_BYTES - operation_bytes(Create("/largest")))
        await store.create("/largest", largest)
        assert await store.write("/largest", largest)
        with pytest.raises(TooLargeError, match=r"above the limit of 20000 \(jute\.maxbuffer\)"):
            await store.create("/too-large", largest + b"x" * 10)
        large = [Create(f"/topic-{n}", b"y" * 7000) for n in range(9)]
        refusals = await store.multi(large)
        assert {type(each) for each in refusals} == {TooLargeError, RolledBackError}
        for some in split_operations(large, 64, LIMIT_BYTES):
            assert all(isinstance(each, str) for each in await store.multi(some))

        small = [Create(f"/topic-{n:060d}") for n in range(500)]
        for some in split_operations(small, 64, LIMIT_BYTES):
            await store.multi(some)
        names = await store.children("/")
        assert len(names) == 511, "a list has no limit here; in Java it has"
        assert list_bytes(names) > LIMIT_BYTES

        wanted = [each.path for each in (*large, *small[:100])]
        for path in wanted[:9]:
            await store.read(path)
        found = await store.read_many(wanted)
        assert [znode and len(znode[0]) for znode in found] == [7000] * 9 + [0] * 100
        assert max(responses) <= LIMIT_BYTES

        address = ensemble.connect
        assert [await takes_request(address, size) for size in (LIMIT_BYTES, LIMIT_BYTES + 1)] == [True, False]

    with_store(work)
