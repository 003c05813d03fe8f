"""Logs of a topic that was removed and created again with another id."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.controller.control_requests import (
    LiveBroker,
    PartitionMetadata,
    UpdateMetadata,
    UpdateMetadataTopic,
)
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import topic_id_to_text
from tests.unit.broker.fake_log import TP, FakeLog
from tests.unit.broker.replication.test_replicas import ID, OTHER_ID, Node, Watch, on_node


def make_update(topic_id: bytes, controller_epoch: int = 1, **indexes: Any) -> UpdateMetadata:
    """UpdateMetadata of the topic, of partition 0 unless `deleted` or `partitions` say otherwise."""
    deleted, partitions = indexes.get("deleted", ()), indexes.get("partitions", (0,))
    states = {each: PartitionMetadata(1, 0, [1], [1], [], 0, 1) for each in (*deleted, *partitions)}
    topic = UpdateMetadataTopic(
        "t", topic_id, {each: states[each] for each in partitions}, {each: states[each] for each in deleted}
    )
    return UpdateMetadata(3, controller_epoch, -1, [topic], [LiveBroker(each, {}) for each in (1, 2, 3)])


@pytest.mark.parametrize("leader", [1, 2])
def test_a_log_of_another_topic_is_not_served(leader: int, caplog: pytest.LogCaptureFixture) -> None:
    """'rmr /brokers/topics/t', and t was made again: its producers were acknowledged into the log of the former topic."""

    async def act(node: Node) -> None:
        await node.order(leader=leader)
        node.logs.logs[TP].log_end_offset = 9
        node.logs.logs[TP].set_high_watermark(7)
        watch = Watch()
        node.replicas.watch(TP, watch)
        for _ in range(2):
            assert await node.order(leader=leader, epoch=0, topic_id=OTHER_ID) == ErrorCode.INCONSISTENT_TOPIC_ID
        assert TP not in node.replicas.partitions and not node.fetchers.followed and watch.told == 1
        assert node.roles[-1] == ([], [TP]), "coordinators hear that it is led here no more"
        await node.replicas.update_metadata(make_update(OTHER_ID))
        with pytest.raises(KafkaError) as raised:
            node.replicas.require(TP)
        assert raised.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert node.replicas.topic_name(ID) is None
        (reason,) = node.replicas.topic_id_conflicts.reasons().items()
        assert reason == (
            "t-0",
            f"its log has topic id {topic_id_to_text(ID)}, in ZooKeeper it is {topic_id_to_text(OTHER_ID)}",
        )
        assert not node.logs.deleted, "an operator decides"
        (line,) = [each.message for each in caplog.records if each.levelname == "ERROR"]
        assert line.startswith("t-0 is not served: its log has topic id") and "/brokers/topics/t " in line
        # The operator puts the log's id into the znode; a new controller tells of the same leader epoch.
        assert await node.order(leader=1, epoch=0, topic_id=ID, controller_epoch=2) == ErrorCode.NONE
        partition = node.replicas.require(TP)
        assert partition.is_leader and (partition.log.log_end_offset, partition.log.high_watermark) == (9, 7)
        assert not node.replicas.topic_id_conflicts.found

    on_node(act)


def test_a_log_of_another_topic_is_found_after_a_restart_too() -> None:
    async def act(node: Node) -> None:
        node.logs.logs[TP] = FakeLog(topic_id=ID)
        assert await node.order(topic_id=OTHER_ID, is_new=False) == ErrorCode.INCONSISTENT_TOPIC_ID
        assert list(node.replicas.topic_id_conflicts.reasons()) == ["t-0"] and not node.replicas.partitions
        assert await node.stop(delete=True) == ErrorCode.NONE
        assert node.logs.deleted == [TP] and not node.replicas.topic_id_conflicts.found
        assert await node.order(epoch=1, topic_id=OTHER_ID) == ErrorCode.NONE

    on_node(act)


def test_metadata_that_gives_a_topic_another_id_ends_the_former_ones_partitions_here() -> None:
    """Also where this broker is no replica of the new one."""

    async def act(node: Node) -> None:
        await node.order()
        await node.replicas.update_metadata(make_update(ID, partitions=(0, 1)))
        assert node.replicas.require(TP).is_leader
        await node.replicas.update_metadata(make_update(OTHER_ID, partitions=(1,)))
        assert TP not in node.replicas.partitions and list(node.replicas.topic_id_conflicts.reasons()) == ["t-0"]
        assert list(node.metadata.topics["t"].partitions) == [1], "those of the former topic are not the new one's"

    on_node(act)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_requests_that_were_overtaken_do_not_bring_a_former_topic_back(is_deleted: bool) -> None:
    """The controller has given up waiting for them, and they arrive behind those about the topic that was made again."""

    async def act(node: Node) -> None:
        await node.order()
        await node.replicas.update_metadata(make_update(ID))
        if is_deleted:
            await node.replicas.update_metadata(make_update(ID, deleted=(0,), partitions=()))
        await node.stop(delete=True)
        if not is_deleted:
            await node.replicas.update_metadata(make_update(OTHER_ID))
        assert await node.order(epoch=7, topic_id=ID) == ErrorCode.STALE_CONTROLLER_EPOCH
        await node.replicas.update_metadata(make_update(ID))
        assert node.metadata.topic_name(ID) is None and not node.replicas.partitions
        assert await node.order(epoch=1, topic_id=OTHER_ID) == ErrorCode.NONE
        assert await node.order(epoch=8, topic_id=ID) == ErrorCode.STALE_CONTROLLER_EPOCH
        assert node.replicas.require(TP).is_leader and not node.replicas.topic_id_conflicts.found
        # A later controller has read ZooKeeper: it knows better.
        await node.replicas.update_metadata(make_update(ID, controller_epoch=2))
        assert node.metadata.topic_name(ID) == "t" and list(node.replicas.topic_id_conflicts.reasons()) == ["t-0"]

    on_node(act)
