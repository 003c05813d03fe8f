"""Replicas that a controller took away, and did not live to say so."""

from __future__ import annotations

import pytest

from kafkalite.controller.control_requests import (
    LiveBroker,
    PartitionMetadata,
    UpdateMetadata,
    UpdateMetadataTopic,
)
from kafkalite.types import NO_TOPIC_ID
from tests.unit.broker.fake_log import TP
from tests.unit.broker.replication.test_replicas import ID, Node, on_node


@pytest.mark.parametrize(
    ("topic_id", "epoch", "replicas", "is_lost"),
    [
        (ID, 3, [2, 3], True),
        (ID, 2, [2, 3], False),
        (ID, 3, [3, 1], False),
        (NO_TOPIC_ID, 3, [2, 3], False),
    ],
    ids=["moved away", "of the same leader epoch", "still here", "without a topic id"],
)
def test_a_replica_that_a_dead_controller_took_away_is_deleted(
    topic_id: bytes, epoch: int, replicas: list[int], is_lost: bool
) -> None:
    """The controller wrote the assignment, lost its power before StopReplica, and the next one did not know of this broker."""

    async def act(node: Node) -> None:
        await node.order(leader=2, epoch=2, topic_id=topic_id)
        told = PartitionMetadata(2, epoch, [2], replicas, [], 9, 2)
        topic = UpdateMetadataTopic("t", topic_id, {0: told}, {})
        brokers = [LiveBroker(each, {}) for each in (1, 2, 3)]
        await node.replicas.update_metadata(UpdateMetadata(3, 2, -1, [topic], brokers))
        assert (TP not in node.replicas.partitions) == is_lost
        assert (node.logs.deleted == [TP]) == is_lost
        assert (TP not in node.fetchers.followed) == is_lost
        assert node.roles == [([], [TP])] * (2 if is_lost else 1)

    on_node(act)
