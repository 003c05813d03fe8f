"""What brokers are told: a batch of state changes becomes at most three requests for each broker.

Order for one broker is LeaderAndIsr, UpdateMetadata, StopReplica: a broker must lead or follow before clients are sent to
it, and must have lost clients before it stops. Every partition in a LeaderAndIsr is also in an UpdateMetadata for all
registered brokers. Requests for brokers that are not registered are dropped; each carries the epoch of the broker's
present incarnation, so that a later one refuses it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kafkalite.controller.cluster_state import (
    ClusterState,
    Leadership,
    PartitionAndReplica,
    PartitionContext,
    RegisteredBroker,
    ReplicaStatus,
)
from kafkalite.protocol import messages
from kafkalite.types import NO_TOPIC_ID, BrokerId, TopicPartition

LEADER_DURING_DELETE = -2
"""As leader in UpdateMetadata: the topic is going, forget the partition."""

EPOCH_DURING_DELETE = -2
"""As leader epoch in StopReplica: delete whatever epoch you know."""

NO_EPOCH = -1

_SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


@dataclass(frozen=True, slots=True)
class Command:
    """A request for one broker, in the version in which it is to be sent."""

    broker_id: BrokerId
    message: Any
    version: int


class RequestBatch:
    """Collects what the transitions of one step have to tell; `commands` makes the requests from the state of then."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._leader_and_isr: defaultdict[BrokerId, dict[TopicPartition, bool]] = defaultdict(dict)
        self._metadata: dict[TopicPartition, None] = {}
        self._metadata_brokers: set[BrokerId] = set()
        self._stop: defaultdict[BrokerId, dict[TopicPartition, bool]] = defaultdict(dict)

    def leader_and_isr(self, brokers: Iterable[BrokerId], partition: TopicPartition, *, is_new: bool = False) -> None:
        """Tell these replicas about their partition, and everybody else through UpdateMetadata."""
        cluster = self._cluster
        for broker in brokers:
            if broker not in cluster.brokers:
                continue
            new = is_new or cluster.replica_status(PartitionAndReplica(partition, broker)) is ReplicaStatus.NEW
            self._leader_and_isr[broker][partition] = new or self._leader_and_isr[broker].get(partition, False)
        self.update_metadata((partition,))

    def update_metadata(
        self, partitions: Iterable[TopicPartition], brokers: Collection[BrokerId] | None = None
    ) -> None:
        """Tell `brokers` (None: all registered ones) about the partitions, and in any case who is registered."""
        self._metadata_brokers.update(self._cluster.brokers if brokers is None else brokers)
        self._metadata.update(dict.fromkeys(partitions))

    def stop_replica(self, broker: BrokerId, partition: TopicPartition, *, delete: bool) -> None:
        """Have the broker stop the replica, and delete it if so wished by any of the calls."""
        self._stop[broker][partition] = delete or self._stop[broker].get(partition, False)

    @property
    def empty(self) -> bool:
        return not (self._leader_and_isr or self._metadata_brokers or self._stop)

    def commands(self) -> list[Command]:
        """The requests, those of each broker in the order in which they must be sent."""
        return [*self._leader_and_isr_commands(), *self._update_metadata_commands(), *self._stop_replica_commands()]

    # -- LeaderAndIsr

    def _leader_and_isr_commands(self) -> Iterable[Command]:
        cluster, version = self._cluster, self._cluster.settings.request_versions.leader_and_isr
        shape = messages.leader_and_isr_request
        built: dict[tuple[TopicPartition, bool], Any] = {}
        for broker_id, wanted in self._leader_and_isr.items():
            broker = cluster.brokers.get(broker_id)
            if broker is None:
                continue
            topic_states = []
            leaders: set[BrokerId] = set()
            for topic, partitions in _by_topic(wanted):
                states = []
                for partition in partitions:
                    state = cluster.find(partition)
                    if state is None or state.leadership is None:
                        continue
                    leaders.add(state.leadership.leader)
                    key = (partition, wanted[partition])
                    if key not in built:
                        built[key] = _leader_and_isr_state(partition, state, state.leadership, is_new=key[1])
                    states.append(built[key])
                if states:
                    topic_states.append(
                        shape.TopicState(topic_name=topic, topic_id=self._topic_id(topic), partition_states=states)
                    )
            message = shape.LeaderAndIsrRequest(
                **self._head(broker), topic_states=topic_states, live_leaders=self._live_leaders(leaders)
            )
            yield Command(broker_id, message, version)

    def _live_leaders(self, leaders: Iterable[BrokerId]) -> list[Any]:
        listener = self._cluster.settings.control_listener
        live = []
        for leader in sorted(leaders):
            broker = self._cluster.brokers.get(leader)
            endpoint = None if broker is None else broker.endpoint(listener)
            if endpoint is not None:
                live.append(
                    messages.leader_and_isr_request.LiveLeader(
                        broker_id=leader, host_name=endpoint.host, port=endpoint.port
                    )
                )
        return live

    # -- UpdateMetadata

    def _update_metadata_commands(self) -> Iterable[Command]:
        if not self._metadata_brokers:
            return
        cluster, version = self._cluster, self._cluster.settings.request_versions.update_metadata
        shape = messages.update_metadata_request
        topic_states = [
            shape.TopicState(topic_name=topic, topic_id=self._topic_id(topic), partition_states=states)
            for topic, partitions in _by_topic(self._metadata)
            if (states := [state for p in partitions if (state := self._metadata_state(p)) is not None])
        ]
        live_brokers = [_live_broker(broker) for _, broker in sorted(cluster.brokers.items())]
        for broker_id in sorted(self._metadata_brokers):
            broker = cluster.brokers.get(broker_id)
            if broker is not None:
                message = shape.UpdateMetadataRequest(
                    **self._head(broker), topic_states=topic_states, live_brokers=live_brokers
                )
                yield Command(broker_id, message, version)

    def _metadata_state(self, partition: TopicPartition) -> Any | None:
        """None for a partition that never had a leader: clients are not to know of it yet."""
        cluster = self._cluster
        state = cluster.find(partition)
        if state is None or state.leadership is None:
            return None
        leadership, replicas = state.leadership, state.assignment.replicas
        going = cluster.is_queued_for_deletion(partition.topic)
        return messages.update_metadata_request.PartitionState(
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=LEADER_DURING_DELETE if going else leadership.leader,
            leader_epoch=0 if going else leadership.leader_epoch,
            isr=list(leadership.isr),
            zk_version=0 if going else leadership.partition_epoch,
            replicas=list(replicas),
            offline_replicas=cluster.offline_replicas(partition, replicas),
        )

    # -- StopReplica

    def _stop_replica_commands(self) -> Iterable[Command]:
        version = self._cluster.settings.request_versions.stop_replica
        for broker_id, wanted in self._stop.items():
            broker = self._cluster.brokers.get(broker_id)
            if broker is None:
                continue
            if version >= 3:
                yield Command(broker_id, self._stop_replica(broker, wanted), version)
                continue
            for delete in (False, True):  # one flag for the whole request, so one request for each value
                part = {partition: flag for partition, flag in wanted.items() if flag is delete}
                if part:
                    yield Command(broker_id, self._stop_replica(broker, part), version)

    def _stop_replica(self, broker: RegisteredBroker, wanted: Mapping[TopicPartition, bool]) -> Any:
        shape = messages.stop_replica_request
        topic_states = [
            shape.TopicState(
                topic_name=topic,
                partition_states=[
                    shape.PartitionState(
                        partition_index=partition.partition,
                        leader_epoch=self._stop_epoch(partition),
                        delete_partition=wanted[partition],
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in _by_topic(wanted)
        ]
        return shape.StopReplicaRequest(
            **self._head(broker), delete_partitions=any(wanted.values()), topic_states=topic_states
        )

    def _stop_epoch(self, partition: TopicPartition) -> int:
        if self._cluster.is_queued_for_deletion(partition.topic):
            return EPOCH_DURING_DELETE
        leadership = self._cluster.leadership(partition)
        return NO_EPOCH if leadership is None else leadership.leader_epoch

    # -- shared parts

    def _head(self, broker: RegisteredBroker) -> dict[str, Any]:
        return {
            "controller_id": self._cluster.controller_id,
            "controller_epoch": self._cluster.epoch,
            "broker_epoch": broker.epoch,
        }

    def _topic_id(self, name: str) -> bytes:
        topic = self._cluster.topics.get(name)
        return NO_TOPIC_ID if topic is None else topic.topic_id


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[TopicPartition]]]:
    for topic, group in groupby(sorted(partitions), key=lambda partition: partition.topic):
        yield topic, list(group)


def _leader_and_isr_state(
    partition: TopicPartition, state: PartitionContext, leadership: Leadership, *, is_new: bool
) -> Any:
    assignment = state.assignment
    return messages.leader_and_isr_request.PartitionState(
        partition_index=partition.partition,
        controller_epoch=leadership.controller_epoch,
        leader=leadership.leader,
        leader_epoch=leadership.leader_epoch,
        isr=list(leadership.isr),
        partition_epoch=leadership.partition_epoch,
        replicas=list(assignment.replicas),
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
        is_new=is_new,
        leader_recovery_state=int(leadership.recovering),
    )


def _live_broker(broker: RegisteredBroker) -> Any:
    shape = messages.update_metadata_request
    return shape.LiveBroker(
        id=broker.broker_id,
        endpoints=[
            shape.Endpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=_SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
            )
            for endpoint in broker.endpoints
        ],
        rack=broker.rack,
    )
