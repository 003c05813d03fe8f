"""Registration on the store in memory: epochs, lost replies, killed predecessors, duplicates."""

import asyncio

import pytest

from kafkalite.testing.simulation import virtual_time
from zk import paths
from zk.broker_registrar import BrokerRegistrar, DuplicateBrokerError
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.top_level import create_top_level
from zk.znodes import BrokerRegistration, RegisteredEndpoint


def registration(port: int = 9092, **other) -> BrokerRegistration:
    return BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "h", port),), timestamp_ms=1, **other)


async def connected(server: MemoryZooKeeper, **settings) -> MemoryStore:
    store = MemoryStore(server, **settings)
    await store.start(1)
    await create_top_level(store)
    return store


def test_broker_epoch_is_the_czxid():
    async def scenario():
        store = await connected(MemoryZooKeeper())
        registrar = BrokerRegistrar(store, 1, stale_wait_s=0)
        epoch = await registrar.register(registration())
        data, stat = await store.read(paths.broker(1))
        assert (epoch, registrar.broker_epoch) == (stat.czxid, stat.czxid)
        assert stat.version == 1
        assert stat.ephemeral_owner == store.session_id
        assert BrokerRegistration.decode(data) == registration()

    asyncio.run(scenario())


def test_update_keeps_the_epoch():
    async def scenario():
        store = await connected(MemoryZooKeeper())
        registrar = BrokerRegistrar(store, 1, stale_wait_s=0)
        epoch = await registrar.register(registration())
        await registrar.update(registration(port=9093))
        _, stat = await store.read(paths.broker(1))
        assert (stat.czxid, stat.version) == (epoch, 2)

    asyncio.run(scenario())


def test_lost_reply_is_success():
    async def scenario():
        server = MemoryZooKeeper()
        store = await connected(server)
        registrar = BrokerRegistrar(store, 1, stale_wait_s=0)
        await store.children(paths.BROKER_IDS)
        original = store.multi

        async def multi(operations):
            store.lose_next_reply()
            return await original(operations)

        store.multi = multi  # type: ignore[method-assign]
        epoch = await registrar.register(registration())
        assert epoch == server.tree.read(paths.broker(1))[1].czxid

    asyncio.run(scenario())


def test_waits_for_a_killed_predecessor():
    async def scenario():
        server = MemoryZooKeeper()
        old, new = await connected(server, session_timeout_s=0.05), await connected(server)
        first = await BrokerRegistrar(old, 1, stale_wait_s=0).register(registration())
        old.suspend()
        second = await BrokerRegistrar(new, 1, stale_wait_s=5).register(registration())
        assert second > first
        assert server.tree.read(paths.broker(1))[1].ephemeral_owner == new.session_id

    asyncio.run(scenario())


def test_time_without_a_quorum_does_not_count():
    """Sessions begin their timeouts from the start behind it, so the predecessor's outlives any wait that goes on."""

    async def scenario():
        server = MemoryZooKeeper()
        old, new = await connected(server, session_timeout_s=6), await connected(server, session_timeout_s=60)
        await BrokerRegistrar(old, 1, stale_wait_s=0).register(registration())
        old.suspend()
        registering = asyncio.ensure_future(BrokerRegistrar(new, 1, stale_wait_s=8).register(registration()))
        await asyncio.sleep(3)
        server.lose_quorum()
        await asyncio.sleep(10)
        server.regain_quorum()
        await registering
        assert server.tree.read(paths.broker(1))[1].ephemeral_owner == new.session_id

    virtual_time.run(scenario())


def test_refuses_an_id_that_stays_taken():
    async def scenario():
        server = MemoryZooKeeper()
        old, new = await connected(server), await connected(server)
        await BrokerRegistrar(old, 1, stale_wait_s=0).register(registration())
        with pytest.raises(DuplicateBrokerError, match="broker id 1 is taken"):
            await BrokerRegistrar(new, 1, stale_wait_s=0.02).register(registration())

    asyncio.run(scenario())


def test_deletes_the_znode_of_its_own_earlier_session():
    async def scenario():
        server = MemoryZooKeeper()
        store = await connected(server)
        registrar = BrokerRegistrar(store, 1, stale_wait_s=0)
        first = await registrar.register(registration())
        # As if the server had opened a new session before it gave up the old one.
        store._session_id = server._open(store)
        assert await registrar.register(registration()) > first

    asyncio.run(scenario())


def test_registers_again_with_a_new_epoch_after_expiry():
    async def scenario():
        server = MemoryZooKeeper()
        store = await connected(server)
        registrar = BrokerRegistrar(store, 1, stale_wait_s=0)
        first = await registrar.register(registration())
        store.expire_session()
        assert server.tree.exists(paths.broker(1)) is None
        await asyncio.sleep(0)
        assert await registrar.register(registration()) > first

    asyncio.run(scenario())


def test_the_registrations_of_others_are_read_in_one_request(monkeypatch):
    """A broker that started read those of a hundred others one by one."""
    reads = []

    async def scenario():
        server = MemoryZooKeeper()
        for broker_id in range(1, 6):
            store = await connected(server)
            if broker_id == 5:
                monkeypatch.setattr(MemoryStore, "read", counted(MemoryStore.read))
            await BrokerRegistrar(store, broker_id, stale_wait_s=0).register(registration(9090 + broker_id))
        assert set(reads) <= {paths.broker(5)}

    def counted(read):
        def count(store, path, *others):
            reads.append(path)
            return read(store, path, *others)

        return count

    asyncio.run(scenario())


def test_refuses_an_endpoint_that_another_broker_advertises():
    async def scenario():
        server = MemoryZooKeeper()
        one, two = await connected(server), await connected(server)
        await BrokerRegistrar(one, 1, stale_wait_s=0).register(registration(9092))
        with pytest.raises(DuplicateBrokerError, match="broker 1 advertises h:9092"):
            await BrokerRegistrar(two, 2, stale_wait_s=0).register(registration(9092))
        await BrokerRegistrar(two, 2, stale_wait_s=0).register(registration(9093))

    asyncio.run(scenario())
