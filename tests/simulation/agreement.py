"""When all is well again, ZooKeeper and every broker must tell the same: who governs, who leads and in which epoch, who is in sync.

A partition that is led by nobody in its ISR, a broker that missed what it should lead or follow, or metadata that lacks a partition would
otherwise show only when somebody happens to ask for just that. A replica that a reassignment took from a broker while that was away may
stay there, and may believe to lead, as with Kafka: nobody asks it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalite.testing.simulation.cluster import SimulatedBroker, SimulatedCluster
from kafkalite.types import TopicPartition
from zk import paths
from zk.store import NoNodeError
from zk.znodes import ControllerEpoch, ControllerSeat, PartitionState


def disagreements(cluster: SimulatedCluster) -> list[str]:
    """What does not fit together, in words; every broker runs."""
    states: dict[TopicPartition, tuple[PartitionState, int]] = {}
    wanted: dict[TopicPartition, list[int]] = {}
    for topic in cluster.topics():
        assignment = cluster.assignment(topic)
        for number, replicas in (assignment.partitions if assignment else {}).items():
            name = TopicPartition(topic, number)
            wanted[name] = list(replicas)
            try:
                data, stat = cluster.zookeeper.tree.read(paths.partition_state(*name))
            except NoNodeError:
                continue
            states[name] = PartitionState.decode(data), stat.version
    found = [f"{name} has no state" for name in wanted if name not in states]
    found += _of_controllers(cluster)
    for name, (state, _) in states.items():
        if state.leader not in state.isr or not set(state.isr) <= set(wanted[name]):
            found.append(f"{name}: leader {state.leader}, ISR {sorted(state.isr)}, replicas {wanted[name]}")
    for broker in cluster.brokers.values():
        if broker.app is None or broker.app.serving is None:
            found.append(f"{broker.name} does not serve")
        else:
            found += _of_replicas(broker, states, wanted)
            found += _of_metadata(broker, states)
    return found


def _of_controllers(cluster: SimulatedCluster) -> Iterator[str]:
    tree = cluster.zookeeper.tree
    try:
        seat = ControllerSeat.decode(tree.read(paths.CONTROLLER)[0]).broker_id
    except NoNodeError:
        yield "nobody governs"
        return
    epoch = ControllerEpoch.decode(tree.read(paths.CONTROLLER_EPOCH)[0]).epoch
    for broker in cluster.running():
        if broker.app is None:
            continue
        known = broker.app.metadata.controller_id, broker.app.metadata.controller_epoch
        if known != (seat, epoch):
            yield f"{broker.name} knows controller {known[0]} in epoch {known[1]}, it is {seat} in {epoch}"


def _of_replicas(
    broker: SimulatedBroker,
    states: dict[TopicPartition, tuple[PartitionState, int]],
    wanted: dict[TopicPartition, list[int]],
) -> Iterator[str]:
    assert broker.app is not None and broker.app.serving is not None
    here = broker.app.serving.parts.replicas.partitions
    for name, (state, version) in states.items():
        if broker.broker_id not in wanted[name]:
            continue
        replica = here.get(name)
        if replica is None:
            yield f"{broker.name} has no {name}"
            continue
        if (replica.leader, replica.leader_epoch) != (state.leader, state.leader_epoch):
            yield (
                f"{broker.name}: {name} is led by {replica.leader} in epoch {replica.leader_epoch}, "
                f"in ZooKeeper by {state.leader} in {state.leader_epoch}"
            )
        elif replica.is_leader and (sorted(replica.isr), replica.partition_epoch) != (sorted(state.isr), version):
            yield (
                f"{broker.name}: {name} has the ISR {sorted(replica.isr)} of version {replica.partition_epoch}, "
                f"in ZooKeeper {sorted(state.isr)} of {version}"
            )


def _of_metadata(broker: SimulatedBroker, states: dict[TopicPartition, tuple[PartitionState, int]]) -> Iterator[str]:
    assert broker.app is not None
    metadata = broker.app.metadata
    known = {
        TopicPartition(topic.name, number): partition
        for topic in metadata.topics.values()
        for number, partition in topic.partitions.items()
    }
    for name in dict.fromkeys([*known, *states]):
        if name not in states:
            yield f"{broker.name} has metadata of {name}, which is not there"
        elif name not in known:
            yield f"{broker.name} has no metadata of {name}"
        else:
            state, told = states[name][0], known[name]
            if (told.leader, told.leader_epoch, sorted(told.isr)) != (
                state.leader,
                state.leader_epoch,
                sorted(state.isr),
            ):
                yield (
                    f"{broker.name} tells of {name} leader {told.leader}, epoch {told.leader_epoch}, ISR {sorted(told.isr)}; "
                    f"in ZooKeeper they are {state.leader}, {state.leader_epoch}, {sorted(state.isr)}"
                )
