"""Whether the log still has what was read: the end of a leader epoch, asked of the present leader (OffsetForLeaderEpoch, KIP-320).

After an unclean election the new leader's log may lack records that this consumer has seen, and have others at their offsets. A leader that
knows the epoch of the last record read tells where that epoch ends in its log: below the position, the log was truncated.

A leader whose leader epoch is earlier than the position's is not asked at all: it does not know yet that it leads no more.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.cluster.retry import is_stale_metadata
from kafkalite.client.cluster.view import PartitionView
from kafkalite.client.errors import ClientError, error_of
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition

_CONSUMER_REPLICA_ID = -1


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The largest leader epoch up to the one asked for, and the offset behind it; -1 for both when the leader has none."""

    leader_epoch: int
    end_offset: int


def find_past_leader(known: PartitionView | None, position_epoch: int) -> ClientError | None:
    """Return an error (FENCED_LEADER_EPOCH) if metadata name a leader of an earlier leader epoch than the position's, None otherwise.

    A leader that is cut off from the controller goes on naming itself. Where its log ends before the position, it would answer
    OFFSET_OUT_OF_RANGE, and a group would begin again at the start. Without leader epochs in the metadata the leader is believed.
    """
    if known is None or not 0 <= known.leader_epoch < position_epoch:
        return None
    reason = f"metadata have leader epoch {known.leader_epoch}, the position is of leader epoch {position_epoch}"
    return error_of(ErrorCode.FENCED_LEADER_EPOCH, "the leader is one of the past", reason)


async def end_of_epoch(cluster: ClusterClient, topic_partition: TopicPartition, leader_epoch: int) -> EpochEnd:
    """Ask the leader. ClientError (retriable ones with a refresh of the metadata under way), ConnectionError, TimeoutError."""
    m = messages.offset_for_leader_epoch_request
    known = cluster.view.partition(topic_partition)
    if known is None or known.leader not in cluster.view.brokers:
        cluster.request_refresh()
        raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, f"checking the position in {topic_partition}")
    question = m.OffsetForLeaderPartition(
        partition=topic_partition.partition, current_leader_epoch=known.leader_epoch, leader_epoch=leader_epoch
    )
    request = m.OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER_REPLICA_ID,
        topics=[m.OffsetForLeaderTopic(topic=topic_partition.topic, partitions=[question])],
    )
    response = await cluster.request(known.leader, request)
    answers = (each for topic in response.topics if topic.topic == topic_partition.topic for each in topic.partitions)
    answer = next((each for each in answers if each.partition == topic_partition.partition), None)
    if answer is None:
        raise error_of(
            ErrorCode.LEADER_NOT_AVAILABLE, f"checking the position in {topic_partition}", "no answer for it"
        )
    if answer.error_code:
        if is_stale_metadata(answer.error_code):
            cluster.request_refresh()
        raise error_of(answer.error_code, f"checking the position in {topic_partition}")
    return EpochEnd(answer.leader_epoch, answer.end_offset)
