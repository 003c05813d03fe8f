"""Choose the preferred read replica of a consumer (KIP-392): the nearest one in sync, if replica.selector.class asks for it."""

from __future__ import annotations

from collections.abc import Callable

from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.broker.replication.partition import Partition
from kafkalite.types import BrokerId

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def selector(
    class_name: str | None, metadata: MetadataCache, broker_id: BrokerId
) -> Callable[[Partition, str], BrokerId | None] | None:
    """Return the chooser for a replica.selector.class; None for leaders only. Raises ValueError for an unknown class."""
    if not class_name or class_name.endswith("LeaderSelector"):
        return None
    if class_name != RACK_AWARE:
        raise ValueError(f"replica.selector.class {class_name} is not known; use {RACK_AWARE} or leave it out")

    def choose(partition: Partition, rack: str) -> BrokerId | None:
        return nearest(partition, rack, metadata, broker_id)

    return choose


def nearest(partition: Partition, rack: str, metadata: MetadataCache, leader: BrokerId) -> BrokerId | None:
    """Return the leader if it is in `rack`, else the in-sync replica there with the most records; None if there is none."""

    def in_rack(broker: BrokerId) -> bool:
        known = metadata.brokers.get(broker)
        return known is not None and known.rack == rack

    if in_rack(leader):
        return leader
    near = [f for f in partition.followers.values() if f.broker_id in partition.isr and in_rack(f.broker_id)]
    return max(near, key=lambda f: (f.log_end_offset, -f.broker_id)).broker_id if near else None
