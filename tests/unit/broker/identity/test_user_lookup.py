"""Who logs in by SCRAM is found in ZooKeeper while few ask, and in memory when many do or ZooKeeper is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkalite.broker.identity.user_lookup import UserCredentials
from kafkalite.broker.settings.quotas import DEFAULT, QuotaEntity
from kafkalite.clock import SystemClock
from kafkalite.security.scram import ScramCredential, ScramMechanism
from kafkalite.testing.simulation import virtual_time
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import StoreClosedError

MECHANISM = ScramMechanism.SCRAM_SHA_256
ALICE = QuotaEntity("alice")
FLOOD = 200


def settings(salt: bytes) -> dict[str, str]:
    return {MECHANISM.config_key: ScramCredential(salt, b"stored", b"server", 4096).encode()}


class Znodes:
    """What stands in ZooKeeper, and what was read of it."""

    def __init__(self) -> None:
        self.settings = {"/config/users/alice": settings(b"first")}
        self.reads: list[str] = []
        self.are_away = False

    async def read(self, path: str) -> dict[str, str]:
        self.reads.append(path)
        if self.are_away:
            raise StoreClosedError(path)
        return self.settings.get(path, {})


def run(scene: Callable[[MemoryStore, Znodes, UserCredentials], Awaitable[None]]) -> None:
    async def main() -> None:
        store, znodes = MemoryStore(MemoryZooKeeper()), Znodes()
        await store.start(1.0)
        await scene(store, znodes, UserCredentials(store, znodes.read, SystemClock()))

    virtual_time.run(main())


async def salt_of(users: UserCredentials, user: str = "alice") -> bytes | None:
    found = await users.find(MECHANISM, user)
    return None if found is None else found.salt


def test_a_change_counts_before_it_is_announced() -> None:
    async def scene(store: MemoryStore, znodes: Znodes, users: UserCredentials) -> None:
        assert await salt_of(users) == b"first"
        znodes.settings["/config/users/alice"] = settings(b"second")
        assert await salt_of(users) == b"second"
        del znodes.settings["/config/users/alice"]
        assert await salt_of(users) is None

    run(scene)


def test_a_flood_is_answered_from_memory_and_what_is_announced_counts() -> None:
    async def scene(store: MemoryStore, znodes: Znodes, users: UserCredentials) -> None:
        users.take(ALICE, settings(b"first"))
        await asyncio.gather(*(users.find(MECHANISM, f"nobody{each}") for each in range(FLOOD)))
        assert len(znodes.reads) < FLOOD / 2
        assert await salt_of(users) == b"first"
        users.take(ALICE, settings(b"second"))
        assert await salt_of(users) == b"second"
        users.take(ALICE, {"producer_byte_rate": "1"})
        assert await salt_of(users) is None
        assert "/config/users/alice" not in znodes.reads

    run(scene)


def test_users_log_in_while_zookeeper_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(store: MemoryStore, znodes: Znodes, users: UserCredentials) -> None:
        assert await salt_of(users) == b"first"
        znodes.are_away = True
        assert await salt_of(users) == b"first"
        assert "those of before count" in caplog.text
        store.suspend()
        reads = len(znodes.reads)
        assert await salt_of(users) == b"first"
        assert len(znodes.reads) == reads

    run(scene)


def test_what_cannot_be_read_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(store: MemoryStore, znodes: Znodes, users: UserCredentials) -> None:
        users.take(ALICE, settings(b"first"))
        znodes.settings["/config/users/alice"] = {MECHANISM.config_key: "garbage"}
        assert await salt_of(users) is None
        assert "the credentials in /config/users/alice cannot be read" in caplog.text

    run(scene)


@pytest.mark.parametrize(
    "entity", [QuotaEntity(DEFAULT), QuotaEntity("alice", "client"), QuotaEntity(client_id="alice")]
)
def test_only_users_have_credentials(entity: QuotaEntity) -> None:
    async def scene(store: MemoryStore, znodes: Znodes, users: UserCredentials) -> None:
        store.suspend()
        users.take(entity, settings(b"first"))
        assert await salt_of(users) is None

    run(scene)
