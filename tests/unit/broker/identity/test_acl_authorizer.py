"""ACLs in ZooKeeper: brokers follow each other's changes, nothing of others is lost, and what cannot be read denies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from kafkalite.broker.identity.acl_authorizer import AclAuthorizer
from kafkalite.broker.identity.authorizer import Operation, Permission, ResourceType
from kafkalite.controller.acls import AclZnodes
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.lifecycle import Jobs
from kafkalite.portions import Portions
from kafkalite.security.acl import AclEntry, AclFilter, PatternType, PermissionType, ResourcePattern
from kafkalite.security.principal import KafkaPrincipal, principals_in
from kafkalite.testing.simulation import virtual_time
from tests.unit.clocks import LoopClock
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.session import Session
from zk.store import NoNodeError, Stat, StoreError

ALICE = KafkaPrincipal("User", "alice")
READ = Permission(Operation.READ, ResourceType.TOPIC)
WRITE = Permission(Operation.WRITE, ResourceType.TOPIC)
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
ORD = ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED)
READS = AclEntry("User:alice", "*", Operation.READ, PermissionType.ALLOW)
WRITES = AclEntry("User:alice", "*", Operation.WRITE, PermissionType.ALLOW)


class Setup(NamedTuple):
    """Two brokers and a client of one ZooKeeper."""

    one: AclAuthorizer
    two: AclAuthorizer
    store: MemoryStore

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.01)


def lived(scenario: Callable[[Setup], Awaitable[None]], **settings: Any) -> None:
    """Run the scenario with both authorizers started."""

    async def life() -> None:
        server, jobs = MemoryZooKeeper(), Jobs()
        stores = [MemoryStore(server) for _ in range(3)]
        sessions = [Session(store) for store in stores]
        for store in stores:
            await store.start(1)
        supers = principals_in(settings.pop("super_users", ""))
        authorizers = [AclAuthorizer(store, LoopClock(), supers, bool(settings)) for store in stores[:2]]
        for authorizer, session in zip(authorizers, sessions, strict=False):
            await authorizer.start(session, jobs)
        await scenario(Setup(*authorizers, stores[2]))
        for authorizer in authorizers:
            await authorizer.stop()
        await jobs.stop()

    virtual_time.run(life())


def reads(authorizer: AclAuthorizer, permission: Permission = READ) -> bool:
    return authorizer.allows(ALICE, "10.0.0.1", permission, "orders")


@pytest.mark.parametrize("resource", [ORDERS, ORD])
def test_what_one_broker_changes_all_obey(resource: ResourcePattern) -> None:
    async def scenario(setup: Setup) -> None:
        one, two, store = setup
        assert not reads(one) and not reads(two)
        await one.create(resource, [READS])
        assert reads(one), "at once where it was asked for"
        await setup.until(lambda: reads(two))
        (deleted,) = await two.delete([AclFilter(ResourceType.TOPIC)], Portions().pace())
        assert [(each.resource, each.entry) for each in deleted.bindings] == [(resource, READS)]
        assert not reads(two)
        await setup.until(lambda: not reads(one))
        path = "/kafka-acl/Topic/orders" if resource is ORDERS else "/kafka-acl-extended/prefixed/Topic/ord"
        with pytest.raises(NoNodeError):
            await store.read(path)

    lived(scenario)


def test_znodes_are_those_of_apache_kafka() -> None:
    async def scenario(setup: Setup) -> None:
        await setup.one.create(ORDERS, [READS])
        await setup.one.create(ORD, [READS._replace(permission=PermissionType.DENY)])
        data, _ = await setup.store.read("/kafka-acl/Topic/orders")
        allowed = b'{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Read"}'
        assert data == b'{"acls":[' + allowed + b'],"version":1}'
        data, _ = await setup.store.read("/kafka-acl-extended/prefixed/Topic/ord")
        assert data == b'{"acls":[' + allowed.replace(b"Allow", b"Deny") + b'],"version":1}'
        for parent, expected in (
            (paths.ACL_CHANGES, b"TOPIC:orders"),
            (
                paths.ACL_EXTENDED_CHANGES,
                b'{"version":1,"resourceType":"TOPIC","name":"ord","patternType":"PREFIXED"}',
            ),
        ):
            (name,) = await setup.store.children(parent)
            assert name == "acl_changes_0000000000"
            assert (await setup.store.read(f"{parent}/{name}"))[0] == expected

    lived(scenario)


def test_removing_one_entry_keeps_the_others() -> None:
    """CVE-2024-27309; also those of which this version knows no word."""

    async def scenario(setup: Setup) -> None:
        await setup.one.create(ORDERS, [READS, WRITES])
        await setup.until(lambda: reads(setup.two))
        data, stat = await setup.store.read("/kafka-acl/Topic/orders")
        foreign = b'{"principal":"User:x","permissionType":"Allow","operation":"Fly","host":"*"}'
        await setup.store.write("/kafka-acl/Topic/orders", data.replace(b"]", b"," + foreign + b"]"), stat.version)
        await setup.two.delete([AclFilter(operation=Operation.READ)], Portions().pace())
        assert not reads(setup.two) and reads(setup.two, WRITE)
        data, _ = await setup.store.read("/kafka-acl/Topic/orders")
        assert b'"Write"' in data and b'"Fly"' in data and b'"Read"' not in data

    lived(scenario)


def test_two_that_add_to_the_same_pattern_lose_nothing() -> None:
    async def scenario(setup: Setup) -> None:
        others = [READS._replace(principal=f"User:{number}") for number in range(8)]
        await asyncio.gather(*((setup.one, setup.two)[n % 2].create(ORDERS, [each]) for n, each in enumerate(others)))
        stored = await AclZnodes(setup.store).read(ORDERS)
        assert stored.entries == set(others)
        await setup.until(lambda: set(setup.one.index.entries(ORDERS)) == set(others))

    lived(scenario)


def test_what_changes_nothing_is_not_written() -> None:
    async def scenario(setup: Setup) -> None:
        await setup.one.create(ORDERS, [READS])
        await setup.two.create(ORDERS, [READS])
        stat: Stat = (await setup.store.read("/kafka-acl/Topic/orders"))[1]
        assert stat.version == 0 and len(await setup.store.children(paths.ACL_CHANGES)) == 1

    lived(scenario)


@pytest.mark.parametrize("garbage", [b"garbage", b'{"version":2,"acls":[]}', b'{"version":1,"acls":[{}]}'])
def test_a_znode_that_nobody_can_read_denies(garbage: bytes) -> None:
    """A denial may stand in it. It is not overwritten, and obeyed again when it is mended and announced."""

    async def scenario(setup: Setup) -> None:
        one, _, store = setup
        await one.create(ORD, [READS])
        assert reads(one)
        await store.create("/kafka-acl/Topic/orders", garbage)
        await one.load()
        assert not reads(one)
        with pytest.raises(KafkaError) as caught:
            await one.create(ORDERS, [READS])
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await store.read("/kafka-acl/Topic/orders"))[0] == garbage
        await store.delete("/kafka-acl/Topic/orders")
        await store.create(paths.ACL_CHANGE_PREFIX, b"TOPIC:orders", sequence=True)
        await setup.until(lambda: reads(one))

    lived(scenario)


def test_super_users_need_no_entry_and_fear_no_denial() -> None:
    async def scenario(setup: Setup) -> None:
        everybody = AclEntry("User:*", "*", Operation.ALL, PermissionType.DENY)
        await setup.one.create(ResourcePattern(ResourceType.TOPIC, "*"), [everybody])
        assert reads(setup.one) and setup.one.allows_some(ALICE, "h", WRITE)
        assert not setup.one.allows(KafkaPrincipal("User", "bob"), "h", READ, "orders")

    lived(scenario, super_users="User:root; User:alice")


def test_everybody_may_do_what_no_acl_is_about_where_the_settings_say_so() -> None:
    async def scenario(setup: Setup) -> None:
        assert reads(setup.one)
        await setup.one.create(ORDERS, [READS._replace(principal="User:bob")])
        assert not reads(setup.one)

    lived(scenario, allow_if_none=True)


@pytest.mark.parametrize("name", ["a/b", "..", "\x00"])
def test_names_that_no_znode_can_have(name: str) -> None:
    async def scenario(setup: Setup) -> None:
        try:
            await setup.one.create(ResourcePattern(ResourceType.GROUP, name), [READS])
        except KafkaError as problem:
            assert problem.code is ErrorCode.INVALID_REQUEST
        else:
            assert "/" in name, "a name with a slash is refused by the handler"

    lived(scenario)


@pytest.mark.parametrize("losses", [1, 2])
def test_acls_whose_answer_was_lost_were_never_announced(losses: int) -> None:
    """A change that met itself when it was sent again was taken for somebody else's, and other brokers did not hear of it."""

    async def scenario(setup: Setup) -> None:
        store = setup.one._znodes._store
        for change in (
            lambda: setup.one.create(ORDERS, [READS, WRITES]),
            lambda: delete(setup.one, WRITES),
            lambda: delete(setup.one, READS),
        ):
            lose_answers(store, losses)
            assert await change() in (None, 1)
            await setup.until(lambda: entries(setup.two) == entries(setup.one))
        assert entries(setup.two) == set()

    def entries(authorizer: AclAuthorizer) -> set[AclEntry]:
        return set(authorizer.index.entries(ORDERS))

    async def delete(authorizer: AclAuthorizer, entry: AclEntry) -> int:
        taken = AclFilter(
            ORDERS.type, ORDERS.name, ORDERS.pattern, entry.principal, entry.host, entry.operation, entry.permission
        )
        (outcome,) = await authorizer.delete([taken], Portions().pace())
        return len(outcome.bindings)

    lived(scenario)


def lose_answers(store: Any, losses: int) -> None:
    """Have the store's next change be carried out so many times before it is answered, as after a lost connection."""
    for name in ("multi", "create", "write", "delete"):
        ask = getattr(store, name)

        async def sent_again(*arguments: Any, ask: Any = ask, **options: Any) -> Any:
            nonlocal losses
            while losses:
                losses -= 1
                try:
                    await ask(*arguments, **options)
                except StoreError:
                    pass
            return await ask(*arguments, **options)

        setattr(store, name, sent_again)


def test_prefixes_are_refused_where_older_brokers_would_not_obey_them() -> None:
    """As Apache Kafka's AclAuthorizer below an inter.broker.protocol.version of 2.0-IV1."""

    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(1)
        authorizer = AclAuthorizer(store, LoopClock(), frozenset(), False, may_prefix=False)
        with pytest.raises(KafkaError, match=r"2\.0 or newer") as problem:
            await authorizer.create(ORD, [READS])
        assert problem.value.code is ErrorCode.INVALID_REQUEST

    virtual_time.run(scenario())
