"""What a simulation sees of its cluster for the judge, beside what clients record: leaders, controllers, high watermarks, disks, resources.

Every transaction of ZooKeeper is seen in its order, and brokers' own knowledge is looked at a few times a second, which costs less than
asking for it. Files are read back by `storage.inspection`, as `kafkalite log verify` does.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from kafkalite.broker.replication.partition import Partition
from kafkalite.protocol.inter_broker import ProtocolVersion
from kafkalite.protocol.record_batches.records import iter_batches
from kafkalite.storage.inspection import files_below, first_damage
from kafkalite.testing.history.events import (
    ControllerElected,
    ControllerWrote,
    HighWatermarkSeen,
    LeaderSeen,
    ReplicaLog,
    ResourceSeen,
    SegmentChecked,
    StateChanged,
)
from kafkalite.testing.history.recorder import Recorder
from kafkalite.testing.history.replicas import digest_batch
from kafkalite.testing.simulation.cluster import LOG_DIR, SimulatedBroker, SimulatedCluster
from kafkalite.types import TopicPartition
from zk import paths
from zk.store import Check, Operation, Result, StoreError, Write
from zk.znodes import MalformedZnodeError, PartitionState
from zk.znodes.controller import ControllerEpoch

_LOOK_S: Final = 0.1
_SLACK: Final = {"tasks": 25, "connections": 25, "waiting requests": 3}
"""How many more than at the beginning there may be: fetchers and links depend on who leads and who controls."""

_TASKS_OF_UNANSWERED: Final = 2
"""Tasks of a request that a fault leaves unanswered: the fault's and the dispatcher's, which end with the process."""

_IN_MEMORY: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""The parent of the folder in which files are read back: on a real disk that takes longer than reading them."""

_Files: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names and contents."""
_Damages: TypeAlias = list[tuple[str, tuple[str, ...]]]
"""What is wrong with each file."""


class Witness:
    """Sees what happens to the partitions of `topics` from its making on; `watch` looks into brokers until it is cancelled."""

    def __init__(self, cluster: SimulatedCluster, recorder: Recorder, topics: Iterable[str]) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._topics = frozenset(topics)
        self._allowed: dict[tuple[str, str], int] = {}
        """Of each broker's name and resource: the count at the baseline and the slack."""
        self._transactions = 0
        self._known: dict[tuple[str, TopicPartition], tuple[int, int, int]] = {}
        protocol = cluster.settings.get("inter.broker.protocol.version")
        self._leaders_write_isrs = protocol is not None and not ProtocolVersion.parse(protocol).alters_partitions
        self._next_observer = cluster.zookeeper.on_transaction
        cluster.zookeeper.on_transaction = self._transaction_seen

    async def watch(self) -> None:
        """Record the brokers' views again and again, on the director's loop."""
        while True:
            self.record_views()
            await asyncio.sleep(_LOOK_S)

    def record_views(self) -> None:
        """Record who leads, and up to where, as each broker knows it now; what has not changed is not recorded again."""
        for broker, name, partition in self._list_led():
            if name.topic not in self._topics:
                continue
            observer = f"{broker.name}/{broker.runs}"
            seen = partition.leader_epoch, partition.leader, partition.high_watermark
            if self._known.get((observer, name)) != seen:
                self._known[observer, name] = seen
                now_ns, (epoch, leader, mark) = self._recorder.now_ns(), seen
                self._recorder.add(LeaderSeen(now_ns, observer, *name, epoch, leader))
                self._recorder.add(HighWatermarkSeen(now_ns, observer, *name, epoch, mark))

    def has_zombie(self, topic: str) -> bool:
        """True if a broker takes itself for the leader where another leads by now: it cannot know, and tells what it has."""
        for broker, name, partition in self._list_led():
            if name.topic == topic:
                state = self._cluster.partition_state(name)
                if state is None or (state.leader, state.leader_epoch) != (broker.broker_id, partition.leader_epoch):
                    return True
        return False

    def _list_led(self) -> Iterator[tuple[SimulatedBroker, TopicPartition, Partition]]:
        """Yield each broker with each partition that it takes itself for the leader of."""
        for broker in self._cluster.running():
            if broker.app is not None and broker.app.serving is not None:
                for name, partition in broker.app.serving.parts.replicas.partitions.items():
                    if partition.is_leader:
                        yield broker, name, partition

    # ZooKeeper

    def _transaction_seen(self, session_id: int, operations: Sequence[Operation], results: list[Result]) -> None:
        if self._next_observer is not None:
            self._next_observer(session_id, operations, results)
        self._transactions += 1
        if any(isinstance(result, StoreError) for result in results):
            return
        broker = self._cluster.find_session_owner(session_id)
        if broker is None:
            return
        is_fenced = any(each.path == paths.CONTROLLER_EPOCH for each in operations if isinstance(each, Check))
        for operation in operations:
            self._record_write(broker.broker_id, operation, is_fenced)

    def _record_write(self, broker: int, operation: Operation, is_fenced: bool) -> None:
        path, data = operation.path, getattr(operation, "data", None)
        now_ns = self._recorder.now_ns()
        try:
            if path == paths.CONTROLLER_EPOCH and isinstance(operation, Write):
                epoch = ControllerEpoch.decode(operation.data).epoch
                self._recorder.add(ControllerElected(now_ns, self._transactions, broker, epoch))
            elif data and path.startswith(f"{paths.TOPICS}/") and path.endswith("/state"):
                self._record_state_write(broker, path, PartitionState.decode(data), now_ns, is_fenced)
        except MalformedZnodeError:
            pass  # a fault that somebody made on purpose

    def _record_state_write(self, broker: int, path: str, state: PartitionState, now_ns: int, is_fenced: bool) -> None:
        topic, _, partition, _ = path.removeprefix(f"{paths.TOPICS}/").split("/")
        name = TopicPartition(topic, int(partition))
        # Before KIP-497 a leader writes its ISR itself, fenced by the version of the znode only.
        if is_fenced or broker != state.leader or not self._leaders_write_isrs:
            self._recorder.add(ControllerWrote(now_ns, self._transactions, broker, state.controller_epoch, path))
        if name.topic in self._topics:
            self._recorder.add(LeaderSeen(now_ns, "ZooKeeper", *name, state.leader_epoch, state.leader))

    # resources

    def note_resources(self, *, is_baseline: bool) -> None:
        """Record what each running broker has: tasks, connections, requests that wait."""
        for broker in self._cluster.running():
            for resource, count in _resources(broker).items():
                seen = ResourceSeen(
                    self._recorder.now_ns(), broker.name, resource, is_baseline, count, _SLACK[resource]
                )
                self._recorder.add(seen)
                if is_baseline:
                    self._allowed[broker.name, resource] = count + _SLACK[resource]

    def resources_are_back(self) -> bool:
        """True if no running broker has more than at the baseline and the slack.

        That may take as long as a request of a producer waits at a leader whose successor it has not been told of.
        """
        return all(
            count <= self._allowed.get((broker.name, resource), count)
            for broker in self._cluster.running()
            for resource, count in _resources(broker).items()
        )

    # the end

    def note_replicas(self, partitions: Iterable[TopicPartition]) -> None:
        """Record all batches of these partitions as they lie on the disks of the brokers that they are assigned to."""
        for name in partitions:
            for broker_id in self._replicas(name):
                data = self._cluster.log_bytes(broker_id, name)
                batches = tuple(digest_batch(data, batch) for batch in iter_batches(data))
                self._recorder.add(ReplicaLog(self._recorder.now_ns(), broker_id, *name, batches))

    def note_segments(self, partitions: Iterable[TopicPartition]) -> None:
        """Read every file of these partitions back; replicas that have the same files, which most have, only once."""
        damages: dict[_Files, _Damages] = {}
        with tempfile.TemporaryDirectory(prefix="kafkalite-inspected-", dir=_IN_MEMORY) as folder:
            for name in partitions:
                for broker_id in self._replicas(name):
                    for files in self._files_of(broker_id, name):
                        if files not in damages:
                            damages[files] = _damages_in(files, Path(folder))
                        for file_name, faults in damages[files]:
                            now_ns = self._recorder.now_ns()
                            self._recorder.add(SegmentChecked(now_ns, broker_id, *name, file_name, faults))

    def _replicas(self, partition: TopicPartition) -> Sequence[int]:
        assignment = self._cluster.assignment(partition.topic)
        return () if assignment is None else assignment.partitions[partition.partition]

    def _files_of(self, broker_id: int, name: TopicPartition) -> list[_Files]:
        """Return the files of a replica, a segment beside its indexes: a file is only compared with those of its own base offset."""
        disk, directory = self._cluster.brokers[broker_id].disk, f"{LOG_DIR}/{name}"
        if not disk.exists(directory):
            return []
        found: dict[str, list[tuple[str, bytes]]] = {}
        for each in sorted(entry.name for entry in disk.list(directory)):
            found.setdefault(each.partition(".")[0], []).append((each, disk.read(f"{directory}/{each}")))
        return [tuple(files) for files in found.values()]

    def note_trace(self) -> None:
        """Record the lines of the simulation's trace, for the reader of a violation."""
        for line in self._cluster.simulation.trace.lines:
            self._recorder.add(StateChanged(int(line.at_s * 1e9), line.source, line.text))


def _damages_in(files: _Files, folder: Path) -> _Damages:
    """Return what is wrong with the files, read back from a folder that is empty before and afterwards."""
    for name, content in files:
        (folder / name).write_bytes(content)
    found = [(path.name, first_damage(path)) for path in files_below(folder)]
    for name, _ in files:
        (folder / name).unlink()
    return [
        (name, () if damage is None else (f"at byte {damage.position}: {damage.reason}",)) for name, damage in found
    ]


def _resources(broker: SimulatedBroker) -> dict[str, int]:
    if broker.process is None or broker.app is None or broker.app.serving is None:
        return {}
    serving, loop = broker.app.serving, broker.process.loop
    unanswered = sum(each.get_loop() is loop for each in broker.requests.unanswered)
    return {
        "tasks": len(broker.process.tasks()) - _TASKS_OF_UNANSWERED * unanswered,
        "connections": len(serving.server.connections),
        "waiting requests": sum(len(each._ack_waits) for each in serving.parts.replicas.partitions.values()),
    }
