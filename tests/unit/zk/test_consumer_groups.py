"""Groups of the time before Kafka kept offsets itself."""

from __future__ import annotations

from kafkalite.testing.simulation import virtual_time
from zk.consumer_groups import has_group
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper


def test_a_group_whose_name_no_path_may_have_is_not_there() -> None:
    """`kafka-consumer-groups --describe --zookeeper` ended in a traceback."""

    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper(lambda: 0.0), 6.0)
        await store.start(1.0)
        for name in ("\ufffd", "a\0b", ".", "", "a/b", "group"):
            assert not await has_group(store, name)
        await store.close()

    virtual_time.run(scenario())
