"""Brokers that start, stop, and restart before their stop was seen ("bounced", the znode has another czxid)."""

from __future__ import annotations

import logging
from collections.abc import Collection

from kafkalite.controller.brokers.broker_znodes import read_broker, read_brokers
from kafkalite.controller.brokers.replica_failures import on_replicas_become_offline
from kafkalite.controller.cluster_state import ClusterState, ReplicaStatus
from kafkalite.controller.machines.partition_state_machine import elect_missing_leaders_in
from kafkalite.controller.machines.replica_state_machine import change_replica_states
from kafkalite.controller.machines.request_batch import RequestBatch, publish_metadata
from kafkalite.controller.steps import Connect, Disconnect, Pause, Steps, pieces
from kafkalite.controller.topics import reassignment, topic_deletion
from kafkalite.types import BrokerId

logger = logging.getLogger(__name__)


def process_broker_change(cluster: ClusterState) -> Steps[None]:
    """Compare the registrations with memory; handle new brokers before stopped ones, as Kafka does."""
    registered = yield from read_brokers(cluster.brokers)
    known = cluster.brokers
    new = sorted(registered.keys() - known.keys())
    dead = sorted(known.keys() - registered.keys())
    bounced = sorted(b for b in registered.keys() & known.keys() if registered[b].epoch > known[b].epoch)
    if not (new or dead or bounced):
        return
    logger.info("new brokers %s, dead %s, bounced %s, live %s", new, dead, bounced, sorted(registered))
    for broker in (*new, *bounced):
        yield Connect(registered[broker])
    for broker in dead:
        yield Disconnect(broker)
    if new:
        for broker in new:
            known[broker] = registered[broker]
        yield from on_broker_startup(cluster, new)
    if bounced:
        for broker in bounced:
            del known[broker]
        yield from on_broker_failure(cluster, bounced)
        for broker in bounced:
            known[broker] = registered[broker]
        yield from on_broker_startup(cluster, bounced)
    if dead:
        for broker in dead:
            del known[broker]
        yield from on_broker_failure(cluster, dead)


def on_broker_startup(cluster: ClusterState, brokers: Collection[BrokerId]) -> Steps[None]:
    """Send the new brokers to the others, elect missing leaders, send all metadata to the new brokers, bring their replicas online.

    Elections come first, unlike in Kafka, so that no leader epoch is sent that is about to end.
    """
    for broker in brokers:
        cluster.offline_dir_replicas.pop(broker, None)
        cluster.leader_and_isr_errors.pop(broker, None)
    others = RequestBatch(cluster)  # at once: leaders take nobody into an ISR of whom they do not know
    others.update_metadata((), [broker for broker in cluster.brokers if broker not in brokers])
    yield from others.publish()
    elections: list[RequestBatch] = []
    for leaderless in pieces(sorted(cluster.leaderless)):
        if not elections or elections[-1].is_full:
            elections.append(RequestBatch(cluster))
        yield from elect_missing_leaders_in(cluster, leaderless, elections[-1])
        yield Pause()
    everything = RequestBatch(cluster)
    everything.update_metadata((), brokers)
    for some in pieces(cluster.partitions()):
        everything.update_metadata((partition for partition, _ in some), brokers)
        yield Pause()
    yield from everything.publish()
    cluster.published_brokers = dict(cluster.brokers)
    for elected in elections:
        yield from elected.publish()
        yield Pause()
    replicas = cluster.replicas_of_brokers(brokers)
    yield from change_replica_states(cluster, replicas, ReplicaStatus.ONLINE)
    awaited = [
        partition
        for partition in sorted(cluster.reassigning)
        if not set(cluster.partition(partition).assignment.target).isdisjoint(brokers)
    ]
    if awaited:
        yield from reassignment.advance_reassignments(cluster, awaited)
    waiting = {r.partition.topic for r in replicas if cluster.is_queued_for_deletion(r.partition.topic)}
    if waiting:
        yield from topic_deletion.resume_deletions_for(cluster, waiting)


def on_broker_failure(cluster: ClusterState, brokers: Collection[BrokerId]) -> Steps[None]:
    """Take the replicas of brokers offline that were removed from `cluster.brokers`."""
    for broker in brokers:
        cluster.shutting_down.discard(broker)
    yield from on_replicas_become_offline(cluster, cluster.replicas_of_brokers(brokers))


def process_broker_modifications(cluster: ClusterState, broker_id: BrokerId) -> Steps[None]:
    """Send changed endpoints or features of a broker to all brokers."""
    known = cluster.brokers.get(broker_id)
    current = yield from read_broker(broker_id)
    if known is None or current is None or current.epoch != known.epoch:
        return  # process_broker_change handles new incarnations
    if (current.endpoints, current.features) == (known.endpoints, known.features):
        return
    cluster.brokers[broker_id] = current
    yield Connect(current)
    yield from publish_metadata(cluster)
