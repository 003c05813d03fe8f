"""Changes of settings, quotas, credentials and ACLs by two brokers at the same time, or whose reply is lost: none is undone or untold."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from kafkalite.broker.identity.user_credentials import CredentialChange
from kafkalite.broker.settings.dynamic_configs import DynamicConfigs
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.controller.acls import AclZnodes
from kafkalite.security.acl import AclEntry, Operation, PatternType, PermissionType, ResourcePattern, ResourceType
from kafkalite.security.scram import ScramMechanism, credential_of
from kafkalite.testing.simulation.virtual_time import run
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.producer_ids import allocate_block
from zk.store import NoNodeError
from zk.znodes import ConfigEntity

ITERATIONS: Final = 20
"""More than a change takes."""
ENTITIES: Final = ("topics/t", "brokers/1", "brokers/<default>", "users/u", "clients/c", "users/u/clients/c", "ips/::1")
MECHANISM: Final = ScramMechanism.SCRAM_SHA_256
CREDENTIAL: Final = credential_of(MECHANISM, bytes(32), b"salt", 4096)
ORDERS: Final = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)


def entry(user: str) -> AclEntry:
    return AclEntry(f"User:{user}", "*", Operation.READ, PermissionType.DENY)


def configs_of(store: MemoryStore) -> DynamicConfigs:
    return DynamicConfigs(store, LiveConfig(BrokerConfig.from_properties({"zookeeper.connect": "any"})))


def lost_once() -> Callable[[MemoryStore], None]:
    """What loses the reply to the write that follows, the first time it is called."""
    left = [True]

    def lose(store: MemoryStore) -> None:
        if left:
            left.clear()
            store.lose_next_reply()

    return lose


def told(script: Callable[[MemoryStore, MemoryStore], Awaitable[None]]) -> None:
    async def scenario() -> None:
        zookeeper = MemoryZooKeeper()
        stores = MemoryStore(zookeeper), MemoryStore(zookeeper)
        for store in stores:
            await store.start(10)
            await AclZnodes(store).create_parents()
        for path in (paths.CONFIG_CHANGES, paths.PRODUCER_ID_BLOCK):
            await stores[0].create(path, parents=True)
        await script(*stores)

    run(scenario())


async def later(iterations: int, act: Awaitable[Any]) -> Any:
    for _ in range(iterations):
        await asyncio.sleep(0)
    return await act


async def stored(store: MemoryStore, entity: str) -> dict[str, str]:
    try:
        return dict(ConfigEntity.decode((await store.read(paths.config(entity)))[0]).config)
    except NoNodeError:
        return {}


def change(store: MemoryStore, entity: str, act: Callable[[dict[str, str]], dict[str, str]]) -> Awaitable[None]:
    return configs_of(store).change(entity, lambda current: act(dict(current)), lambda wanted: None, False)


@pytest.mark.parametrize("entity", ENTITIES)
def test_two_changes_of_one_entity_are_both_kept(entity: str) -> None:
    async def script(one: MemoryStore, two: MemoryStore) -> None:
        for n in range(ITERATIONS):
            await asyncio.gather(
                change(one, entity, lambda found, n=n: found | {f"one{n}": "1"}),  # type: ignore[misc]
                later(n, change(two, entity, lambda found, n=n: found | {f"two{n}": "1"})),  # type: ignore[misc]
            )
            assert len(await stored(one, entity)) == 2 * (n + 1)
        assert len(await one.children(paths.CONFIG_CHANGES)) == 2 * ITERATIONS

    told(script)


@pytest.mark.parametrize("entity", ENTITIES)
def test_a_change_and_the_removal_of_the_last_one_leave_the_change(entity: str) -> None:
    async def script(one: MemoryStore, two: MemoryStore) -> None:
        for n in range(ITERATIONS):
            await change(one, entity, lambda found: {"old": "1"})
            await asyncio.gather(
                change(one, entity, lambda found: {key: text for key, text in found.items() if key != "old"}),
                later(n, change(two, entity, lambda found: found | {"new": "1"})),
            )
            assert await stored(one, entity) == {"new": "1"}, n
            await change(one, entity, lambda found: {})

    told(script)


def test_a_user_without_settings_goes_while_one_of_its_clients_comes() -> None:
    async def script(one: MemoryStore, two: MemoryStore) -> None:
        for n in range(ITERATIONS):
            await change(one, "users/u", lambda found: {"old": "1"})
            await asyncio.gather(
                change(one, "users/u", lambda found: {}),
                later(n, change(two, "users/u/clients/c", lambda found: {"new": "1"})),
            )
            assert (await stored(one, "users/u"), await stored(one, "users/u/clients/c")) == ({}, {"new": "1"}), n
            await change(one, "users/u/clients/c", lambda found: {})

    told(script)


@pytest.mark.parametrize("entity", ENTITIES)
def test_a_change_whose_reply_is_lost_is_done_once_and_announced(entity: str) -> None:
    async def script(one: MemoryStore, two: MemoryStore) -> None:
        for number, before in enumerate(({}, {"list": "a"})):
            await change(two, entity, lambda found, before=before: before)  # type: ignore[misc]

            lose_once = lost_once()

            def append(found: dict[str, str], lose_once: Any = lose_once) -> dict[str, str]:
                lose_once(one)
                return found | {"list": f"{found.get('list', '')}b"}

            known = len(await one.children(paths.CONFIG_CHANGES))
            await change(one, entity, append)
            assert await stored(one, entity) == {"list": "ab" if number else "b"}
            assert len(await one.children(paths.CONFIG_CHANGES)) == known + 1

    told(script)


def test_a_deletion_of_credentials_whose_reply_is_lost_is_not_refused() -> None:
    """It was looked for again and not found: RESOURCE_NOT_FOUND for a user who had just been locked out."""

    async def script(one: MemoryStore, two: MemoryStore) -> None:
        for also in ({}, {"producer_byte_rate": "1"}):
            await change(two, "users/u", lambda found, also=also: also | {MECHANISM.config_key: CREDENTIAL.encode()})  # type: ignore[misc]

            lose_once = lost_once()

            def delete(found: dict[str, str], lose_once: Any = lose_once) -> dict[str, str]:
                lose_once(one)
                return CredentialChange(deleted=[MECHANISM]).apply(found)

            await change(one, "users/u", delete)
            assert await stored(one, "users/u") == also

    told(script)


def test_two_changes_of_the_acls_of_a_resource_are_both_kept() -> None:
    async def script(one: MemoryStore, two: MemoryStore) -> None:
        for n in range(ITERATIONS):
            await AclZnodes(one).update(ORDERS, lambda found: frozenset({entry("old")}))
            await asyncio.gather(
                AclZnodes(one).update(ORDERS, lambda found: found - {entry("old")}),
                later(n, AclZnodes(two).update(ORDERS, lambda found: found | {entry("a")})),
            )
            assert (await AclZnodes(one).read(ORDERS)).entries == {entry("a")}, n
            await AclZnodes(one).update(ORDERS, lambda found: frozenset())

    told(script)


@pytest.mark.parametrize("before", [frozenset(), frozenset({entry("a")})], ids=["none", "one"])
def test_an_acl_whose_reply_is_lost_is_announced(before: frozenset[AclEntry]) -> None:
    """It was found as wanted, so nobody was told: other brokers went on without the denial until they were started again."""

    async def script(one: MemoryStore, two: MemoryStore) -> None:
        await AclZnodes(two).update(ORDERS, lambda found: before)
        for wanted in (before | {entry("b")}, before):
            lose_once = lost_once()

            def to(
                found: frozenset[AclEntry], wanted: frozenset[AclEntry] = wanted, lose_once: Any = lose_once
            ) -> frozenset[AclEntry]:
                lose_once(one)
                return wanted

            known = len(await one.children(paths.ACL_CHANGES))
            assert await AclZnodes(one).update(ORDERS, to) == wanted
            assert (await AclZnodes(two).read(ORDERS)).entries == wanted
            assert len(await one.children(paths.ACL_CHANGES)) == known + 1

    told(script)


def test_blocks_of_producer_ids_are_given_out_once() -> None:
    async def script(one: MemoryStore, two: MemoryStore) -> None:
        given: set[int] = set()
        for n in range(ITERATIONS):
            blocks = await asyncio.gather(allocate_block(one, 1), later(n, allocate_block(two, 1)))
            given |= {each.first_producer_id for each in blocks}
            assert len(given) == 2 * (n + 1)

    told(script)
