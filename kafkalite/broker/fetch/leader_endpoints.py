"""Current leaders and their endpoints in responses that refuse a client (KIP-951), which then needs no Metadata request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.fetch.fetch_sessions import PartitionData
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.broker.requests.request_context import RequestContext
    from kafkalite.types import BrokerId

PRODUCE_FROM: Final = 10
FETCH_FROM: Final = 16
"""The first versions whose answers have room for it."""
_NO_EPOCH: Final = -1


class Leader(NamedTuple):
    """A leader and its epoch, both -1 where nothing is known of the partition."""

    broker_id: BrokerId
    epoch: int


def current_leader(replicas: Replicas, topic_partition: TopicPartition) -> Leader:
    """Return the leader of a partition: as its replica on this broker knows it, else as the metadata cache does."""
    replica = replicas.partitions.get(topic_partition)
    if replica is not None:
        return Leader(replica.leader, replica.leader_epoch)
    known = replicas.metadata.partition(topic_partition)
    return Leader(NO_BROKER, _NO_EPOCH) if known is None else Leader(known.leader, known.leader_epoch)


def name_leaders(replicas: Replicas, context: RequestContext, reply: messages.produce_response.ProduceResponse) -> None:
    """Tell a producer that asked the wrong broker who leads instead."""
    if context.api_version < PRODUCE_FROM:
        return
    m = messages.produce_response
    endpoints: dict[BrokerId, messages.produce_response.NodeEndpoint] = {}
    for topic in reply.responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            leader = current_leader(replicas, TopicPartition(topic.name, answer.index))
            answer.current_leader = m.LeaderIdAndEpoch(leader_id=leader.broker_id, leader_epoch=leader.epoch)
            place = _place(replicas.metadata, leader.broker_id, context.listener)
            if place is not None:
                host, port, rack = place
                endpoints[leader.broker_id] = m.NodeEndpoint(node_id=leader.broker_id, host=host, port=port, rack=rack)
    reply.node_endpoints = list(endpoints.values())


class FetchLeaders:
    """The leaders that one answer to a fetch names."""

    __slots__ = ("_listener", "_replicas", "endpoints")

    def __init__(self, replicas: Replicas, listener: str) -> None:
        self._replicas, self._listener = replicas, listener
        self.endpoints: dict[BrokerId, messages.fetch_response.NodeEndpoint] = {}

    def name_leader(self, topic_partition: TopicPartition, data: PartitionData) -> None:
        """Tell a client that asked the wrong broker, or in an older epoch, who leads now."""
        if data.error_code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            return
        m, leader = messages.fetch_response, current_leader(self._replicas, topic_partition)
        data.current_leader = m.LeaderIdAndEpoch(leader_id=leader.broker_id, leader_epoch=leader.epoch)
        place = _place(self._replicas.metadata, leader.broker_id, self._listener)
        if place is not None:
            host, port, rack = place
            self.endpoints[leader.broker_id] = m.NodeEndpoint(node_id=leader.broker_id, host=host, port=port, rack=rack)


def _place(cache: MetadataCache, broker_id: BrokerId, listener: str) -> tuple[str, int, str | None] | None:
    """Return host, port and rack of a live broker that has this listener."""
    broker = cache.brokers.get(broker_id)
    endpoint = broker.endpoints.get(listener) if broker is not None else None
    return None if broker is None or endpoint is None else (endpoint.host, endpoint.port, broker.rack)
