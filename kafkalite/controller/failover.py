"""The failover to a new controller, in Kafka's order: read the cluster, send it to the brokers, resume what was under way.

Watches are armed before or together with the reads, so no change is missed. Brokers receive the list of brokers before any
partition, because a follower refuses a leader that it does not know. Each partition is sent once, after its election; those whose state
changes come first. In a large cluster a broker is not sent the metadata that it has proven to know (`known_metadata`), and what the dead
brokers led, by this broker's own metadata, is read, elected and sent before the state of any other partition is read.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from kafkalite.controller.brokers import restarted_replicas
from kafkalite.controller.brokers.broker_znodes import read_brokers
from kafkalite.controller.cluster_state import ClusterState, PartitionContext, PartitionStatus, ReplicaStatus
from kafkalite.controller.control_requests import Command, MetadataDigests
from kafkalite.controller.features import set_up_feature_versioning
from kafkalite.controller.known_metadata import KnownMetadata
from kafkalite.controller.machines import leader_elections
from kafkalite.controller.machines.leadership_znodes import read_leaderships, watch_leaderships
from kafkalite.controller.machines.partition_state_machine import elect_missing_leaders_in
from kafkalite.controller.machines.replica_state_machine import remove_from_isrs
from kafkalite.controller.machines.request_batch import GrowingBatches, RequestBatch, publish_metadata
from kafkalite.controller.metadata_digests import KnownTopic
from kafkalite.controller.notifications import delete_notifications
from kafkalite.controller.steps import (
    AwaitDigests,
    Connect,
    Pause,
    Publish,
    Steps,
    finish_with_pauses,
    list_children,
    pieces,
)
from kafkalite.controller.topics import reassignment, topic_deletion
from kafkalite.controller.topics.topic_validation import legal_names
from kafkalite.controller.topics.topic_znodes import load_topics
from kafkalite.types import BrokerId, TopicPartition
from zk import paths

logger = logging.getLogger(__name__)

_Known: TypeAlias = tuple[TopicPartition, PartitionContext]

_DIGESTS_TIMEOUT_S: Final = 1.0
_DIGEST_TIMEOUT_S: Final = 20e-6
"""Longest wait for digests, after everything that changes was sent, and what each partition adds to it: of a million they take some seconds
of processor. Who has not answered by then is sent the rest, too, which is a gigabyte where a hundred brokers are late.
"""


def on_controller_failover(
    cluster: ClusterState,
    clean_brokers: Collection[BrokerId] = (),
    earlier_zxid: int = 0,
    own_metadata: Mapping[str, KnownTopic] = MappingProxyType({}),
) -> Steps[None]:
    """Fill an empty `cluster` from ZooKeeper and make this broker its active controller.

    `clean_brokers` are known to have all the records that they had before their restart; the earlier controller was elected at
    `earlier_zxid`. `own_metadata` is what this broker was sent by earlier controllers. It may be out of date, and decides only what is read
    first and what others need not be sent.
    """
    yield from set_up_feature_versioning(cluster)
    for path in (paths.LOG_DIR_EVENTS, paths.ISR_CHANGES):
        yield from delete_notifications(path)  # all state is read below
    known = KnownMetadata(own_metadata)
    cluster.known_metadata = known if known.is_worthwhile else None
    yield from _load_cluster(cluster)
    yield from _load_deletions(cluster)
    yield from publish_metadata(cluster)
    urgent: set[TopicPartition] = set()
    settled: set[TopicPartition] = set()
    if cluster.known_metadata is not None:
        urgent = yield from _find_led_by_the_dead(cluster, own_metadata)
    if urgent:
        some = [(each, cluster.partition(each)) for each in sorted(urgent)]
        yield from _load_states(cluster, some, clean_brokers, earlier_zxid)
        settled.update(cluster.leaderless)
        yield from _settle_all(cluster, sorted(settled), GrowingBatches(cluster))
    others: list[_Known] = []
    for pairs in pieces(cluster.partitions()):
        others += (each for each in pairs if each[0] not in urgent)
        yield Pause()
    yield from _load_states(cluster, others, clean_brokers, earlier_zxid)
    yield from _elect_and_announce(cluster, settled)
    cluster.known_metadata = None
    yield from reassignment.process_zk_reassignment(cluster)
    if cluster.reassigning:
        yield from reassignment.advance_reassignments(cluster, sorted(cluster.reassigning))
    yield from topic_deletion.resume_deletions(cluster, cluster.deletions.queued)
    yield from leader_elections.process_zk_preferred_election(cluster)
    statuses = Counter(state.status.value for _, state in cluster.partitions())
    logger.info(
        "controller %d completed its failover with epoch %d: %d brokers, %d topics, partitions %s",
        cluster.controller_id,
        cluster.epoch,
        len(cluster.brokers),
        len(cluster.topics),
        dict(statuses),
    )


def _load_cluster(cluster: ClusterState) -> Steps[None]:
    cluster.brokers = yield from read_brokers({})
    for broker in cluster.brokers.values():
        yield Connect(broker)
    if cluster.known_metadata is not None:
        yield from _ask_for_digests(cluster, cluster.known_metadata)
    names = legal_names((yield from list_children(paths.TOPICS, watch=True)))
    yield from load_topics(cluster, names)
    if not cluster.settings.inter_broker_protocol_version.alters_partitions:
        yield from watch_leaderships(sorted(cluster.reassigning))


def _ask_for_digests(cluster: ClusterState, known: KnownMetadata) -> Steps[None]:
    """Ask all brokers for the digests of their metadata, with the first requests that they get, and compute those of the reference."""
    listener = cluster.settings.control_listener
    reached = [broker for broker in cluster.brokers.values() if broker.endpoint(listener) is not None]
    known.asked = [broker.broker_id for broker in reached]
    yield Publish(
        [
            Command(
                broker.broker_id,
                MetadataDigests(cluster.controller_id, cluster.epoch, broker.epoch, known.buckets),
            )
            for broker in reached
        ]
    )
    yield from finish_with_pauses(known.digest_reference())


def _load_deletions(cluster: ClusterState) -> Steps[None]:
    queued = yield from topic_deletion.read_markers(cluster)
    cluster.deletions.queued |= queued
    cluster.deletions.ineligible |= topic_deletion.ineligible_topics(cluster, queued)


def _find_led_by_the_dead(cluster: ClusterState, own_metadata: Mapping[str, KnownTopic]) -> Steps[set[TopicPartition]]:
    """Return the partitions whose leader, as far as this broker was told, is not registered any more."""
    found: set[TopicPartition] = set()
    for some in pieces(cluster.partitions()):
        for partition, _ in some:
            topic = own_metadata.get(partition.topic)
            state = None if topic is None else topic.partitions.get(partition.partition)
            if state is not None and state.leader not in cluster.brokers:
                found.add(partition)
        yield Pause()
    return found


def _load_states(
    cluster: ClusterState, partitions: Sequence[_Known], clean_brokers: Collection[BrokerId], earlier_zxid: int
) -> Steps[None]:
    """Read the states of partitions, take restarted replicas out of the ISRs, and set what follows in memory."""
    for partition, leadership in (yield from read_leaderships([partition for partition, _ in partitions])).items():
        cluster.partition(partition).leadership = leadership
    renewed = yield from restarted_replicas.demote_restarted_replicas(cluster, partitions, clean_brokers, earlier_zxid)
    yield from _set_replica_states(cluster, partitions)
    yield from _set_partition_states(cluster, partitions, renewed)


def _set_replica_states(cluster: ClusterState, partitions: Iterable[_Known]) -> Steps[None]:
    """Set the state of every replica by its broker and log directory; offline ones are still in their ISRs.

    Partitions with the same replicas have the same object, unless a log directory is offline.
    """
    alike: dict[tuple[BrokerId, ...], Mapping[BrokerId, ReplicaStatus]] = {}
    have_directories = not cluster.has_offline_directories
    for some in pieces(partitions):
        for partition, state in some:
            replicas = state.assignment.replicas
            if have_directories and replicas in alike:
                state.replica_statuses = alike[replicas]
                continue
            state.set_replica_statuses(
                {
                    broker: ReplicaStatus.ONLINE
                    if cluster.is_online(broker, partition)
                    else ReplicaStatus.DELETION_INELIGIBLE
                    for broker in replicas
                }
            )
            alike[replicas] = state.replica_statuses
        yield Pause()


def _set_partition_states(
    cluster: ClusterState, partitions: Iterable[_Known], renewed: Collection[TopicPartition]
) -> Steps[None]:
    """Set the state of every partition by its leader; `renewed` need an election although their leaders are online."""
    sound = cluster.sound_brokers
    for some in pieces(partitions):
        for partition, state in some:
            leadership = state.leadership
            if leadership is None:
                cluster.set_status(partition, PartitionStatus.NEW)
            elif partition in renewed or not (
                leadership.leader in sound or cluster.is_online(leadership.leader, partition)
            ):
                cluster.set_status(partition, PartitionStatus.OFFLINE)
            else:
                state.status = PartitionStatus.ONLINE
        yield Pause()


def _elect_and_announce(cluster: ClusterState, already: Collection[TopicPartition]) -> Steps[None]:
    """Elect missing leaders and send them to the brokers, then take offline replicas out of the other ISRs and send those partitions, then
    send the others, but for those that were settled `already`.

    An election writes an ISR without offline replicas, so each state is written once. Kafka takes all offline replicas out of their ISRs
    first, and writes the states of leaderless partitions a second time when it elects.

    Kafka also sends the states that it has read before it elects. A client that gets metadata in between keeps that leader epoch and is
    refused with FENCED_LEADER_EPOCH until it refreshes its metadata, which some do not do for that reason (librdkafka's ListOffsets).
    """
    leaderless = sorted(cluster.leaderless.difference(already))
    requests = GrowingBatches(cluster)
    yield from _settle_all(cluster, leaderless, requests)
    settled = {*already, *leaderless}
    if cluster.known_metadata is not None:
        shrinking = yield from _find_shrinking(cluster, settled)
        yield from _settle_all(cluster, shrinking, requests)
        settled.update(shrinking)
        partitions = sum(len(topic.partitions) for topic in cluster.topics.values())
        yield AwaitDigests(_DIGESTS_TIMEOUT_S + _DIGEST_TIMEOUT_S * partitions)
        logger.info(
            "brokers %s have proven which metadata they have", cluster.known_metadata.proven_by(cluster.brokers)
        )
    rest: list[TopicPartition] = []
    for some in pieces(cluster.partitions()):
        rest += [partition for partition, _ in some if partition not in settled]
        yield Pause()
    yield from _settle_all(cluster, rest, requests)


def _settle_all(cluster: ClusterState, partitions: Sequence[TopicPartition], requests: GrowingBatches) -> Steps[None]:
    """Settle partitions and publish all of them, the first ones soon."""
    for some in requests.divide(partitions):
        yield from _settle_partitions(cluster, some, requests.batch)
        yield from requests.publish()


def _find_shrinking(cluster: ClusterState, settled: Collection[TopicPartition]) -> Steps[list[TopicPartition]]:
    """Return the partitions with an offline replica in the ISR, without those that are `settled` already."""
    shrinking: list[TopicPartition] = []
    alike: dict[tuple[int, tuple[BrokerId, ...]], bool] = {}
    """True for replica states and an ISR that have an offline replica; the states of all partitions outlive this."""
    for some in pieces(cluster.partitions()):
        for partition, state in some:
            if state.leadership is None or partition in settled:
                continue
            members, statuses = state.leadership.isr, state.replica_statuses
            key = id(statuses), members
            shrinks = alike.get(key)
            if shrinks is None:
                shrinks = any(statuses.get(member) is not ReplicaStatus.ONLINE for member in members)
                alike[key] = shrinks
            if shrinks:
                shrinking.append(partition)
        yield Pause()
    return shrinking


def _settle_partitions(cluster: ClusterState, partitions: Sequence[TopicPartition], batch: RequestBatch) -> Steps[None]:
    """Elect missing leaders, take offline replicas out of the ISRs that still have them, and send the partitions to the brokers."""
    yield from elect_missing_leaders_in(cluster, partitions, batch)
    offline: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for some in pieces(partitions):
        for broker, found in _find_replicas(cluster, some, online=False).items():
            offline[broker] += found
        yield Pause()
    yield from remove_from_isrs(cluster, offline)
    for some in pieces(partitions):
        led = [partition for partition in some if cluster.leadership(partition) is not None]
        for broker, found in _find_replicas(cluster, led, online=True).items():
            batch.add_roles(broker, found)
        batch.update_metadata(some)
        yield Pause()


def _find_replicas(
    cluster: ClusterState, partitions: Sequence[TopicPartition], *, online: bool
) -> dict[BrokerId, list[TopicPartition]]:
    """Return the partitions whose replica on a broker is online, or is not, by broker; once for those with the same states."""
    alike: dict[int, tuple[Mapping[BrokerId, ReplicaStatus], list[TopicPartition]]] = {}
    for partition in partitions:
        statuses = cluster.partition(partition).replica_statuses
        alike.setdefault(id(statuses), (statuses, []))[1].append(partition)
    found: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for statuses, some in alike.values():
        for broker, status in statuses.items():
            if (status is ReplicaStatus.ONLINE) is online:
                found[broker] += some
    return found
