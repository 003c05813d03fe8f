"""What a client knows of the cluster: brokers, and for each topic its partitions with leaders and leader epochs. Pure.

A view is frozen; a metadata answer makes a new one. A partition whose leader epoch in the answer is lower than the known one keeps
what is known (an answer from a broker that lags behind, KIP-320), unless the topic was made again under another id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafkalite.client.plain_values import PlainValues
from kafkalite.errors import ErrorCode
from kafkalite.types import NO_BROKER, NO_TOPIC_ID, TopicPartition

if TYPE_CHECKING:
    from kafkalite.protocol import messages

_RELIABLE_EPOCHS_FROM = 9
TOPICS_AT_ONCE = 500
"""Of all topics so many are taken in before others have a turn of the event loop: some milliseconds."""


@dataclass(frozen=True, slots=True)
class BrokerNode(PlainValues):
    """A broker and where this client reaches it."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView(PlainValues):
    """One partition; `leader` is NO_BROKER (-1) when there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0

    @property
    def under_replicated(self) -> bool:
        """True if there is no leader, or some replica is not in sync with it."""
        return self.leader == NO_BROKER or len(self.isr) < len(self.replicas)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values under the names of the fields, for JSON and tables."""
        return {
            "partition": self.partition,
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "replicas": list(self.replicas),
            "isr": list(self.isr),
            "offline_replicas": list(self.offline_replicas),
            "under_replicated": self.under_replicated,
        }


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic, its partitions by number. `all_partitions` and `available` (those with a leader) are in order."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Mapping[int, PartitionView]
    all_partitions: tuple[int, ...] = field(init=False)
    available: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        numbers = tuple(sorted(self.partitions))
        object.__setattr__(self, "all_partitions", numbers)
        object.__setattr__(self, "available", tuple(n for n in numbers if self.partitions[n].leader != NO_BROKER))


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All that metadata answers told so far; `topic_errors` holds the codes of topics that could not be described."""

    cluster_id: str | None = None
    controller_id: int = NO_BROKER
    brokers: Mapping[int, BrokerNode] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, TopicView] = field(default_factory=lambda: MappingProxyType({}))
    topic_errors: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def partition(self, topic_partition: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(topic_partition.topic)
        return topic.partitions.get(topic_partition.partition) if topic else None

    def leader_of(self, topic_partition: TopicPartition) -> int:
        """Return the leader's id, NO_BROKER when there is none or the partition is not known."""
        found = self.partition(topic_partition)
        return found.leader if found else NO_BROKER

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def with_metadata(
        self, response: messages.metadata_response.MetadataResponse, everything: bool = False
    ) -> ClusterView:
        """Return the view after a MetadataResponse; with `everything` the answer lists all topics, and others are forgotten."""
        topics = {} if everything else dict(self.topics)
        errors: dict[str, int] = {} if everything else dict(self.topic_errors)
        for answer in response.topics:
            if answer.name is None:
                continue
            errors.pop(answer.name, None)
            if answer.error_code:
                errors[answer.name] = answer.error_code
                if answer.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                    topics.pop(answer.name, None)
                continue
            topics[answer.name] = _topic_view(answer.name, answer, self.topics.get(answer.name))
        return ClusterView(
            response.cluster_id if response.cluster_id is not None else self.cluster_id,
            response.controller_id,
            MappingProxyType({b.node_id: BrokerNode(b.node_id, b.host, b.port, b.rack) for b in response.brokers}),
            MappingProxyType(topics),
            MappingProxyType(errors),
        )

    def with_leader(self, topic_partition: TopicPartition, leader: int, leader_epoch: int) -> ClusterView:
        """Return the view after a broker named a newer leader in an answer (KIP-951); itself when that is no news."""
        known = self.partition(topic_partition)
        if known is None or leader < 0 or leader_epoch <= known.leader_epoch or leader not in self.brokers:
            return self
        topic = self.topics[topic_partition.topic]
        partitions = dict(topic.partitions)
        partitions[known.partition] = replace(known, leader=leader, leader_epoch=leader_epoch)
        changed = TopicView(topic.name, topic.topic_id, topic.is_internal, MappingProxyType(partitions))
        return replace(self, topics=MappingProxyType({**self.topics, topic.name: changed}))

    def with_brokers(self, nodes: Iterable[BrokerNode]) -> ClusterView:
        """Return the view with `nodes` added or replaced (the node endpoints of KIP-951)."""
        return replace(self, brokers=MappingProxyType({**self.brokers, **{node.id: node for node in nodes}}))


def drop_unreliable_epochs(
    response: messages.metadata_response.MetadataResponse, version: int
) -> messages.metadata_response.MetadataResponse:
    """Return the answer, without leader epochs (-1) if it is of a version before 9.

    Brokers before 2.4, which speak no later one, may name a leader epoch of the past for ever (KAFKA-9212).
    """
    if version < _RELIABLE_EPOCHS_FROM:
        for topic in response.topics:
            for partition in topic.partitions:
                partition.leader_epoch = -1
    return response


def views_of(response: messages.metadata_response.MetadataResponse) -> Iterator[ClusterView]:
    """Yield the view of an answer that lists all topics, and before it what it is after each `TOPICS_AT_ONCE` of them."""
    topics, view = response.topics, ClusterView()
    for begin in range(0, max(len(topics), 1), TOPICS_AT_ONCE):
        response.topics = topics[begin : begin + TOPICS_AT_ONCE]
        view = view.with_metadata(response)
        yield view


def _topic_view(
    name: str, answer: messages.metadata_response.MetadataResponseTopic, known: TopicView | None
) -> TopicView:
    same_topic = known is not None and (
        known.topic_id == answer.topic_id or NO_TOPIC_ID in (known.topic_id, answer.topic_id)
    )
    partitions: dict[int, PartitionView] = {}
    for each in answer.partitions:
        old = known.partitions.get(each.partition_index) if known and same_topic else None
        if old is not None and 0 <= each.leader_epoch < old.leader_epoch:
            partitions[each.partition_index] = old
            continue
        partitions[each.partition_index] = PartitionView(
            name,
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
            each.error_code,
        )
    return TopicView(name, answer.topic_id, answer.is_internal, MappingProxyType(partitions))
