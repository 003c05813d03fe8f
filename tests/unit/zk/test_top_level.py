"""Top-level paths, cluster id, generated broker ids and producer id blocks, on the store in memory."""

import asyncio

import pytest

from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.producer_ids import ProducerIdsExhaustedError, allocate_block, next_block
from zk.subtree import delete_subtree, list_subtree
from zk.top_level import create_top_level, generate_broker_id, read_cluster_id, read_or_create_cluster_id
from zk.znodes import ProducerIdBlock


async def sessions(count: int) -> list[MemoryStore]:
    server = MemoryZooKeeper()
    stores = [MemoryStore(server) for _ in range(count)]
    for store in stores:
        await store.start(1)
    return stores


def test_brokers_may_create_the_top_level_at_once():
    async def scenario():
        stores = await sessions(3)
        await asyncio.gather(*map(create_top_level, stores))
        for path in paths.PERSISTENT:
            assert (await stores[0].read(path))[0] == b""

    asyncio.run(scenario())


def test_one_cluster_id_for_all():
    async def scenario():
        stores = await sessions(3)
        assert await read_cluster_id(stores[0]) is None
        ids = await asyncio.gather(*(read_or_create_cluster_id(store, f"id{n}") for n, store in enumerate(stores)))
        assert set(ids) == {await read_cluster_id(stores[0])}
        assert await read_or_create_cluster_id(stores[0], "other") == ids[0]

    asyncio.run(scenario())


def test_generated_broker_ids_are_all_different():
    async def scenario():
        stores = await sessions(3)
        ids = await asyncio.gather(*map(generate_broker_id, stores))
        assert sorted(ids) == [1001, 1002, 1003]

    asyncio.run(scenario())


def test_producer_id_blocks_are_all_different():
    async def scenario():
        stores = await sessions(3)
        blocks = await asyncio.gather(*(allocate_block(stores[n % 3], n % 2) for n in range(12)))
        assert sorted(block.first_producer_id for block in blocks) == [n * 1000 for n in range(12)]
        stores[0].lose_next_reply()
        again = await allocate_block(stores[0], 1)
        assert again.first_producer_id >= 12_000

    asyncio.run(scenario())


def test_producer_ids_end():
    last = 2**63 - 1
    assert next_block(ProducerIdBlock(1, 0, last - 1000), 1).last_producer_id == last
    with pytest.raises(ProducerIdsExhaustedError):
        next_block(ProducerIdBlock(1, 0, last - 999), 1)


def test_subtrees():
    async def scenario():
        (store,) = await sessions(1)
        for path in ("/t/a/b", "/t/c"):
            await store.create(path, parents=True)
        assert await list_subtree(store, "/t") == ["/t", "/t/a", "/t/a/b", "/t/c"]
        await delete_subtree(store, "/t")
        assert await store.exists("/t") is None
        await delete_subtree(store, "/t")

    asyncio.run(scenario())
