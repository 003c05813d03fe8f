"""Demotion of replicas whose broker restarted while there was no controller (cf. KIP-966).

The registration of such a broker has a newer zxid than the state of a partition in whose ISR it is. After a power failure its log may
lack unflushed records. So it leaves the ISR and returns by fetching, as if its stop had been seen (`broker_changes`), as long as another
member of the ISR did not restart. Where no other is left it stays; if it leads, its leader epoch is raised, because one epoch must not
have two histories. Where all members restarted, as after the end of all sessions, those leave that did so since the earlier controller
was elected, which had checked the others.

A controller that had a clean shutdown lost no records and is not demoted; of other brokers it does not know.

Kafka considers live brokers only: a leader that lost power and was back at once goes on in its old epoch, and its followers truncate the
records that it lost, acknowledged ones too:

    1. broker 1 is the controller and leads a partition with the ISR 1, 2, 3
    2. it loses power, and is back, with a shorter log, at the moment when its session ends
    3. broker 2 becomes the controller, and finds broker 1 alive and leading
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from kafkalite.controller.cluster_state import ClusterState, PartitionContext
from kafkalite.controller.machines.replica_state_machine import remove_from_isr
from kafkalite.controller.steps import Pause, Steps, pieces
from kafkalite.types import BrokerId, TopicPartition


def demote_restarted_replicas(
    cluster: ClusterState,
    partitions: Iterable[tuple[TopicPartition, PartitionContext]],
    clean_brokers: Collection[BrokerId] = (),
    earlier_zxid: int = 0,
) -> Steps[set[TopicPartition]]:
    """Take restarted replicas out of the ISRs of these partitions; return those whose leader epoch must be raised.

    To be called before anything is sent of them to a broker.
    """
    newest = max((broker.epoch for broker in cluster.brokers.values()), default=0)
    leaving: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
    renewed: set[TopicPartition] = set()
    for some in pieces(partitions):
        for partition, state in some:
            leadership = state.leadership
            if leadership is None or leadership.read_zxid >= newest or cluster.is_queued_for_deletion(partition.topic):
                continue
            members = [cluster.brokers[each] for each in leadership.isr if each in cluster.brokers]
            restarted = [
                each.broker_id
                for each in members
                if each.epoch > leadership.read_zxid and each.broker_id not in clean_brokers
            ]
            if leadership.leader in restarted:
                renewed.add(partition)
            if len(restarted) == len(members):
                restarted = [each.broker_id for each in members if each.epoch > earlier_zxid]
            if len(restarted) < len(members):
                for broker in restarted:
                    leaving[broker].append(partition)
        yield Pause()
    for broker, left in leaving.items():
        current = yield from remove_from_isr(cluster, broker, left)
        for partition, leadership in current.items():
            cluster.partition(partition).leadership = leadership
    return renewed
