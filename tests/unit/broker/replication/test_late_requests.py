"""A LeaderAndIsr that comes late, behind requests that the same controller sent after it."""

from __future__ import annotations

import pytest

from kafkalite.controller.control_requests import PartitionMetadata, UpdateMetadata, UpdateMetadataTopic
from kafkalite.errors import ErrorCode
from kafkalite.types import NO_TOPIC_ID
from tests.unit.broker.replication.test_replicas import ID, OTHER_ID, Node, on_node


async def publish_elsewhere(node: Node, epoch: int, topic_id: bytes) -> None:
    """UpdateMetadata of the one partition, with replicas on the other two brokers only."""
    state = PartitionMetadata(3, epoch, [2, 3], [2, 3], [], 0, 1)
    topic = UpdateMetadataTopic("t", topic_id, {0: state})
    await node.replicas.update_metadata(UpdateMetadata(3, 1, -1, [topic], list(node.metadata.brokers.values())))


@pytest.mark.parametrize("topic_id", [ID, NO_TOPIC_ID], ids=["topic id", "no topic id"])
def test_a_late_request_does_not_bring_back_a_replica_that_was_taken_away(topic_id: bytes) -> None:
    """A reassignment had deleted the replica; a LeaderAndIsr from before it made an empty log, which led the old epoch for old clients."""

    async def act(node: Node) -> None:
        await node.order(epoch=9, is_new=False, topic_id=topic_id)
        await publish_elsewhere(node, 11, topic_id)
        assert await node.stop(epoch=11, delete=True) == ErrorCode.NONE

        for late in (9, 10):
            assert await node.order(epoch=late, is_new=False, topic_id=topic_id) == ErrorCode.STALE_CONTROLLER_EPOCH
            assert (node.replicas.partitions, node.logs.logs) == ({}, {})
        assert await node.order(epoch=12, is_new=False, topic_id=topic_id) == ErrorCode.NONE, "it has been moved back"

    on_node(act)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [(ID, OTHER_ID), (NO_TOPIC_ID, NO_TOPIC_ID), (NO_TOPIC_ID, ID)],
    ids=["topic ids", "no topic ids", "a topic id now"],
)
def test_a_topic_that_is_made_again_starts_with_lower_leader_epochs(was: bytes, becomes: bytes) -> None:
    """This broker had no replica of the old topic, and the UpdateMetadata that deletes it was lost with its controller."""

    async def act(node: Node) -> None:
        await publish_elsewhere(node, 11, was)
        assert await node.order(epoch=0, is_new=True, topic_id=becomes) == ErrorCode.NONE

    on_node(act)
