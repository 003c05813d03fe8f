"""Brokers that went away and came back while nobody governed, so that nobody saw it.

A broker's registration has a newer zxid than the state of a partition in whose ISR it is: since that state was written it began again, with
its log as its machine kept it, perhaps without what was not on the medium yet. As long as another member of the ISR has gone on all the
time, such a replica leaves the ISR and comes back by fetching, as if its departure had been seen (`broker_changes`). Where nobody
else is left it stays; but if it leads, it leads in a new epoch, because one epoch must not hold two histories. When all have begun again,
as the sessions of all had ended, those leave who did so since the controller before was elected: it looked at the others.

A broker that knows of itself that it lost nothing, because it had stopped cleanly, is not distrusted when it governs: nobody else can tell.

Kafka goes by who is alive when the new controller looks: a leader that lost power and was back at once goes on in its old epoch, and the
other replicas cut off what it has forgotten, acknowledged or not. The broken run:

    1. broker 1 is the controller and leads a partition with the ISR 1, 2, 3
    2. it loses power, and is back, with a shorter log, at the moment when its session ends
    3. broker 2 becomes the controller, and finds broker 1 alive and leading
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from kafkalite.controller.cluster_state import ClusterState
from kafkalite.controller.machines.replica_state_machine import remove_from_isr
from kafkalite.controller.steps import Steps, pause, pieces
from kafkalite.types import BrokerId, TopicPartition


def demote_restarted_replicas(
    cluster: ClusterState, whole: Collection[BrokerId] = (), earlier_zxid: int = 0
) -> Steps[set[TopicPartition]]:
    """Take such replicas out of their ISRs, before anything is sent to a broker; the partitions whose leader needs a new epoch."""
    newest = max((broker.epoch for broker in cluster.brokers.values()), default=0)
    leaving: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
    renewed: set[TopicPartition] = set()
    for some in pieces(cluster.partitions()):
        for partition, state in some:
            leadership = state.leadership
            if leadership is None or leadership.read_zxid >= newest or cluster.is_queued_for_deletion(partition.topic):
                continue
            members = [cluster.brokers[each] for each in leadership.isr if each in cluster.brokers]
            returned = [
                each.broker_id for each in members if each.epoch > leadership.read_zxid and each.broker_id not in whole
            ]
            if leadership.leader in returned:
                renewed.add(partition)
            if len(returned) == len(members):
                returned = [each.broker_id for each in members if each.epoch > earlier_zxid]
            if len(returned) < len(members):
                for broker in returned:
                    leaving[broker].append(partition)
        yield from pause()
    for broker, partitions in leaving.items():
        current = yield from remove_from_isr(cluster, broker, partitions)
        for partition, leadership in current.items():
            cluster.partition(partition).leadership = leadership
    return renewed
