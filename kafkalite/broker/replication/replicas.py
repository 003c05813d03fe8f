"""All replicas on this broker: carries out the controller's requests, finds partitions for handlers, keeps ISRs and checkpoints up to date.

The one owner of `partitions`. The controller's requests are applied one after the other under a lock (ReplicaManager's
replicaStateChangeLock), because creating logs needs topic configurations from ZooKeeper first, and because those that name very much are
applied in portions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.metadata_cache import MetadataCache, TopicMetadata
from kafkalite.broker.replication.append_pace import AppendPace
from kafkalite.broker.replication.effects import IsrChange
from kafkalite.broker.replication.lost_replicas import find_lost_replicas
from kafkalite.broker.replication.new_log_files import NewLogFiles
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.replication.partition_host import PartitionHost
from kafkalite.broker.replication.partition_watcher import NO_WATCHERS, Watcher
from kafkalite.broker.replication.state_change_trace import StateChangeTrace
from kafkalite.broker.replication.topic_id_conflicts import TopicIdConflicts, find_replaced_topics
from kafkalite.clock import Clock
from kafkalite.config.topic import TopicConfig
from kafkalite.controller.control_requests import (
    ANY_BROKER_EPOCH,
    ControlRequest,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
)
from kafkalite.controller.topics.topic_validation import is_legal
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import PORTION_UNITS, Pace, Portions, Work
from kafkalite.types import NO_TOPIC_ID, BrokerId, TopicPartition

if TYPE_CHECKING:
    from kafkalite.storage.directories.log_store import LogStore

_CREATION_UNITS = PORTION_UNITS // 2
"""Creating a log creates a directory and a file."""
_DELETION_UNITS = PORTION_UNITS
_LEADER_UNITS = 8
_ROLE_UNITS = 2
_ROLE_TRACE: Final = "role=%s leader=%d isr=%s leader_epoch=%d controller_epoch=%d reason=LeaderAndIsr"


class Followers(Protocol):
    """Fetches for the partitions that this broker follows."""

    def follow(self, partition: Partition, topic_id: bytes) -> None: ...

    def stop(self, topic_partitions: Iterable[TopicPartition]) -> None: ...


class Replicas:
    """The replicas of a broker; the only owner of `partitions`.

    `topic_config(topic)` reads a topic's configuration; `propose_isr(partition, change)` sends an ISR change on its way;
    `on_roles(leading, following)` notifies coordinators of partitions that changed hands.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        logs: LogStore,
        metadata: MetadataCache,
        clock: Clock,
        lag_max_ms: float,
        topic_config: Callable[[str], Awaitable[TopicConfig]],
        propose_isr: Callable[[Partition, IsrChange], None],
        followers: Followers,
        on_roles: Callable[[list[Partition], list[Partition]], None],
    ) -> None:
        self.broker_id = broker_id
        self.logs = logs
        self.metadata = metadata
        self.clock = clock
        self._topic_config = topic_config
        self.propose_isr = propose_isr
        self.followers = followers
        self.partitions: dict[TopicPartition, Partition] = {}
        self.topic_ids: dict[bytes, str] = {}
        self.topic_id_conflicts = TopicIdConflicts()
        self._watchers: dict[TopicPartition, dict[Watcher[Partition], None]] = {}
        """Watchers of the partitions that have any, hosted or not: a fetch session outlives the deletion and awaits the creation."""
        self.controller_epoch = 0
        self.broker_epoch = -1
        self._awaited_leaders: dict[TopicPartition, tuple[LeaderAndIsrPartition, bytes]] = {}
        """Partitions to follow once metadata knows their leader."""
        self.has_roles = False
        """True once a LeaderAndIsr was applied: before, no high watermark may be written to disk."""
        self.on_roles = on_roles
        self.pace = AppendPace()
        self._host = PartitionHost(broker_id, lag_max_ms, metadata.is_alive)
        self._lock = asyncio.Lock()
        self._new_log_files = NewLogFiles(logs, self._lock.locked)
        self._portions = Portions()

    # Finding partitions

    def require(self, topic_partition: TopicPartition) -> Partition:
        """Return the hosted partition. KafkaError says whether it is offline, elsewhere or unknown."""
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            return partition
        if self.logs.is_offline(topic_partition):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the directory of {topic_partition} failed")
        if self.metadata.partition(topic_partition) is not None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic_partition} is not on this broker")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic_partition}")

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.topic_ids.get(topic_id) or self.metadata.topic_name(topic_id)

    def leading(self) -> list[Partition]:
        return [partition for partition in self.partitions.values() if partition.is_leader]

    def lagging(self) -> list[Partition]:
        """Return the led partitions of which a follower may lack records."""
        names = self._host.unsettled | dict.fromkeys(self._host.under_replicated)
        return [each for name in names if (each := self.partitions.get(name)) is not None and each.is_leader]

    def watch(self, topic_partition: TopicPartition, watcher: Watcher[Partition]) -> None:
        """Notify `watcher` of changes, from now on or once the partition is hosted here."""
        watchers = self._watchers.get(topic_partition)
        if watchers is None:
            watchers = self._watchers[topic_partition] = {}
            if (partition := self.partitions.get(topic_partition)) is not None:
                partition.watchers = watchers
        watchers[watcher] = None

    def unwatch(self, topic_partition: TopicPartition, watcher: Watcher[Partition]) -> None:
        watchers = self._watchers.get(topic_partition, {})
        watchers.pop(watcher, None)
        if not watchers:
            self._watchers.pop(topic_partition, None)
            if (partition := self.partitions.get(topic_partition)) is not None:
                partition.watchers = NO_WATCHERS

    # The controller's requests

    def check_controller(self, request: ControlRequest) -> None:
        """Refuse a stale controller, and a request for an earlier incarnation of this broker (KIP-380)."""
        if request.broker_epoch != ANY_BROKER_EPOCH and request.broker_epoch < self.broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH, f"broker epoch {request.broker_epoch}, this is {self.broker_epoch}"
            )
        if request.controller_epoch < self.controller_epoch:
            raise KafkaError(
                ErrorCode.STALE_CONTROLLER_EPOCH,
                f"controller epoch {request.controller_epoch}, seen was {self.controller_epoch}",
            )
        self.controller_epoch = request.controller_epoch

    async def apply_leader_and_isr(self, request: LeaderAndIsr) -> dict[TopicPartition, ErrorCode]:
        """Become leader or follower of each partition named; return the outcome of each."""
        async with self._lock:
            self.check_controller(request)
            pace = self._portions.pace()
            outcome = {}
            count = sum(len(topic.partitions) for topic in request.topics)
            self.logs.upkeep_pause.hold(count)
            new_logs = 0
            configs = await self._configs_for(request, pace)
            with StateChangeTrace(self.broker_id, _ROLE_TRACE, count) as trace:
                for topic, state in request.leaders_first(self.broker_id):
                    await pace.unit(self._units_of(state))
                    code = self._apply_state(topic.topic_id, state, configs.get(topic.name), trace)
                    outcome[state.topic_partition] = code
                    new_logs += state.is_new
            self.has_roles = True
            self.logs.upkeep_pause.hold(0, new_logs=new_logs)
        self._new_log_files.start()
        return outcome

    def _notify_role(self, partition: Partition) -> None:
        """Notify coordinators in the iteration in which the role changed: the directory may fail in the next."""
        if partition.is_leader:
            self.on_roles([partition], [])
        else:
            self.on_roles([], [partition])

    async def _configs_for(self, request: LeaderAndIsr, pace: Pace) -> dict[str, TopicConfig]:
        """Return the configurations of the topics that have a legal name."""
        configs = {}
        for topic in request.topics:
            await pace.unit()
            if not is_legal(topic.name):
                continue
            hosted = (self.partitions.get(state.topic_partition) for state in topic.partitions)
            known = next((each.log.config for each in hosted if each), None)
            configs[topic.name] = known or await self._topic_config(topic.name)
        return configs

    def _units_of(self, state: LeaderAndIsrPartition) -> int:
        """Return the cost of applying a state, in units of work."""
        known = self.partitions.get(state.topic_partition)
        if known is None:
            return _CREATION_UNITS
        if state.leader_epoch <= known.leader_epoch:
            return 1
        return _LEADER_UNITS if state.leader == self.broker_id else _ROLE_UNITS

    def _is_repeated(self, partition: Partition, topic_id: bytes, state: LeaderAndIsrPartition) -> bool:
        """True for most stale states, without the price of an exception: whole requests are sent again."""
        return state.leader_epoch <= partition.leader_epoch and topic_id == partition.topic_id

    def _apply_state(
        self, topic_id: bytes, state: LeaderAndIsrPartition, config: TopicConfig | None, trace: StateChangeTrace
    ) -> ErrorCode:
        """Apply a LeaderAndIsr state, and return the outcome; `config` is None for a topic whose name is not legal."""
        topic_partition = state.topic_partition
        if config is None or topic_partition.partition < 0:
            # No controller asks for it: its directory would lie elsewhere, or be read as another one's at the next start.
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        known = self.partitions.get(topic_partition)
        if known is not None and self._is_repeated(known, topic_id, state):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        try:
            partition = self._find_changed(known, topic_id, state, config)
            if partition is not None and self._change_role(partition, state, topic_id, trace):
                self._notify_role(partition)
        except KafkaError as problem:
            return problem.code
        return ErrorCode.NONE

    def _find_changed(
        self, partition: Partition | None, topic_id: bytes, state: LeaderAndIsrPartition, config: TopicConfig
    ) -> Partition | None:
        """Return the partition, opened if need be, None if its state has changed in nothing. Raises KafkaError for a stale state."""
        topic_partition = state.topic_partition
        if self.metadata.is_former(topic_id, self.controller_epoch) or (
            partition is None and self.metadata.is_superseded(topic_id, state)
        ):
            # The topic is gone, or its replica was taken from this broker: later requests have overtaken this one.
            raise KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH)
        if partition is None and self.logs.is_offline(topic_partition):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        log = self.logs.get(topic_partition) if partition is None else partition.log
        if log is not None:
            self._check_topic_id(topic_partition, log.topic_id, topic_id)
        if partition is not None:
            if state.leader_epoch < partition.leader_epoch or (
                state.leader_epoch == partition.leader_epoch and not self._learn_topic_id(partition, topic_id)
            ):
                raise KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH)
            if state.leader_epoch == partition.leader_epoch:
                return None
        if self.broker_id not in state.replicas:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition is None:
            partition = self._open(topic_partition, topic_id, config, state.is_new)
        if topic_id != NO_TOPIC_ID:
            self.topic_ids[topic_id] = topic_partition.topic
        self.topic_id_conflicts.settle(topic_partition)
        return partition

    def _check_topic_id(self, topic_partition: TopicPartition, log_id: bytes, told_id: bytes) -> None:
        """Stop serving a log and raise KafkaError if the controller names another topic than the log's."""
        if NO_TOPIC_ID in (log_id, told_id) or log_id == told_id:
            return
        self._set_aside(topic_partition, log_id, told_id)
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)

    def _set_aside(self, topic_partition: TopicPartition, log_id: bytes, told_id: bytes) -> None:
        """Stop serving a log, which stays as it is until an operator decides (`topic_id_conflicts`)."""
        self.topic_id_conflicts.note(topic_partition, log_id, told_id)
        self._awaited_leaders.pop(topic_partition, None)
        self.topic_ids.pop(log_id, None)
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            self.followers.stop([topic_partition])
            self.partitions.pop(topic_partition).resign()
            self.on_roles([], [partition])

    def _learn_topic_id(self, partition: Partition, topic_id: bytes) -> bool:
        if partition.topic_id != NO_TOPIC_ID or topic_id == NO_TOPIC_ID:
            return False
        partition.log.set_topic_id(topic_id)
        self.topic_ids[topic_id] = partition.topic_partition.topic
        return True

    def _open(self, topic_partition: TopicPartition, topic_id: bytes, config: TopicConfig, is_new: bool) -> Partition:
        log = self.logs.get(topic_partition)
        if log is None:
            if not is_new and self.logs.offline_directories:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic_partition} may be on a directory that failed")
            log = self.logs.create(topic_partition, topic_id, config)
        else:
            log.config = config
            if log.topic_id == NO_TOPIC_ID and topic_id != NO_TOPIC_ID:
                log.set_topic_id(topic_id)
        partition = Partition(topic_partition, log, self._host)
        partition.watchers = self._watchers.get(topic_partition, NO_WATCHERS)
        self.partitions[topic_partition] = partition
        return partition

    def _change_role(
        self, partition: Partition, state: LeaderAndIsrPartition, topic_id: bytes, trace: StateChangeTrace
    ) -> bool:
        topic_partition = partition.topic_partition
        if state.leader == self.broker_id:
            self.followers.stop([topic_partition])
            changed = partition.become_leader(state, self.clock.monotonic_ms())
        elif not self.metadata.is_alive(state.leader):
            # The leader epoch is not taken over, so that the same LeaderAndIsr works once the leader is known: see `update_metadata`.
            self._awaited_leaders[topic_partition] = state, topic_id
            self.followers.stop([topic_partition])
            changed = partition.is_leader
            if changed:
                partition.resign()
        else:
            changed = partition.become_follower(state)
            if changed:
                self.followers.follow(partition, topic_id)
        trace.note(
            topic_partition,
            "leader" if partition.is_leader else "follower",
            state.leader,
            state.isr,
            state.leader_epoch,
            state.controller_epoch,
        )
        return changed

    async def stop_replicas(self, request: StopReplica) -> dict[TopicPartition, ErrorCode]:
        """Stop, and where requested delete, each replica named; return the outcome of each."""
        async with self._lock:
            self.check_controller(request)
            return await self._stop_all(request.partitions)

    async def _stop_all(self, wanted: Mapping[TopicPartition, StopReplicaPartition]) -> dict[TopicPartition, ErrorCode]:
        outcome: dict[TopicPartition, ErrorCode] = {}
        deleted: list[Partition] = []
        pace = self._portions.pace()
        for topic_partition, each in wanted.items():
            await pace.unit(_DELETION_UNITS if each.delete else 1)
            try:
                partition = self._stop(topic_partition, each.leader_epoch, each.delete)
                outcome[topic_partition] = ErrorCode.NONE
                if partition is not None and each.delete:
                    self.on_roles([], [partition])
                    deleted.append(partition)
            except KafkaError as problem:
                outcome[topic_partition] = problem.code
        self._forget_topic_ids(deleted)
        if outcome:
            self.logs.checkpoint_deletions()
        return outcome

    async def update_metadata(self, update: UpdateMetadata) -> list[TopicPartition]:
        """Apply an UpdateMetadata; return the partitions that left the metadata."""
        async with self._lock:
            self.check_controller(update)
            replaced = await self._portions.finish(
                find_replaced_topics(update, self.metadata.topics, self.partitions, self.topic_ids)
            )
            removed = await self._portions.finish(self.metadata.apply_in_portions(update))
            if replaced:
                self._set_topics_aside(replaced)
            lost = find_lost_replicas(update, self.metadata.topics, self.partitions, self.broker_id)
            await self._stop_all(await self._portions.finish(lost))
            if self._awaited_leaders:
                await self._follow_awaited()
            return removed

    async def read_metadata(self, request: ControlRequest) -> list[TopicMetadata]:
        """Return the metadata of all topics, once the requests that were accepted before are applied.

        No earlier controller changes it afterwards.
        """
        async with self._lock:
            self.check_controller(request)
            return list(self.metadata.topics.values())

    def _set_topics_aside(self, names: set[str]) -> None:
        """Serve no partition of a topic that has another id in metadata by now."""
        for topic_partition, partition in list(self.partitions.items()):
            if topic_partition.topic in names:
                known, log_id = self.metadata.topics.get(topic_partition.topic), partition.topic_id
                if known is not None and NO_TOPIC_ID not in (known.topic_id, log_id) and known.topic_id != log_id:
                    self._set_aside(topic_partition, log_id, known.topic_id)

    async def _follow_awaited(self) -> None:
        """Follow leaders that a LeaderAndIsr named before metadata knew them: no controller says it again."""
        pace = self._portions.pace()
        with StateChangeTrace(self.broker_id, _ROLE_TRACE, len(self._awaited_leaders)) as trace:
            for topic_partition, (state, topic_id) in list(self._awaited_leaders.items()):
                await pace.unit(_ROLE_UNITS)
                partition = self.partitions.get(topic_partition)
                if partition is None or state.leader_epoch <= partition.leader_epoch:
                    del self._awaited_leaders[topic_partition]
                elif self.metadata.is_alive(state.leader):
                    del self._awaited_leaders[topic_partition]
                    if self._change_role(partition, state, topic_id, trace):
                        self._notify_role(partition)

    def _stop(self, topic_partition: TopicPartition, leader_epoch: int, delete: bool) -> Partition | None:
        if self.logs.is_offline(topic_partition):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        self._awaited_leaders.pop(topic_partition, None)
        partition = self.partitions.get(topic_partition)
        if partition is not None and leader_epoch >= 0 and leader_epoch < partition.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        self.followers.stop([topic_partition])
        if delete:
            if partition is not None:
                self.partitions.pop(topic_partition).resign()
            self.logs.delete(topic_partition)
            self.topic_id_conflicts.settle(topic_partition)
        return partition

    def _forget_topic_ids(self, deleted: list[Partition]) -> None:
        """Forget the ids of topics that have no partition here any more."""
        remaining = {each.topic for each in self.partitions} if deleted else ()
        for partition in deleted:
            if partition.topic_partition.topic not in remaining:
                self.topic_ids.pop(partition.topic_id, None)

    def drop_offline_partitions(self) -> list[TopicPartition]:
        """Drop and return the partitions whose directory is offline; they answer KAFKA_STORAGE_ERROR from now on."""
        gone = [each for each in self.logs.offline_partitions if each in self.partitions]
        self.followers.stop(gone)
        dropped = [self.partitions[topic_partition] for topic_partition in gone]
        for topic_partition in gone:
            self.partitions.pop(topic_partition).resign()
        self.on_roles([], dropped)
        return gone

    # Upkeep

    async def shrink_isrs(self) -> None:
        """Propose ISRs without replicas that lag, and wait for no others.

        Every replica.lag.time.max.ms / 2.
        """
        await self._portions.finish(self._shrink_isrs())

    def _shrink_isrs(self) -> Work[None]:
        for topic_partition in tuple(self._host.unsettled):
            yield
            if (partition := self._find_unsettled(topic_partition)) is not None:
                now_ms = self.clock.monotonic_ms()
                partition.stop_waiting(now_ms)
                change = partition.shrink(now_ms)
                if change is not None:
                    self.propose_isr(partition, change)

    def _find_unsettled(self, topic_partition: TopicPartition) -> Partition | None:
        """Return a partition if something of it may be due; forget one that is settled, dropped or led elsewhere by now."""
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            if not partition.settle():
                return partition
            partition.log.segments.free_idle()
        self._host.unsettled.pop(topic_partition, None)
        if not self._host.unsettled:
            self._host.unsettled.clear()  # a dict that is emptied key by key keeps its memory
        return None

    def apply_topic_configs(self, configs: Mapping[str, TopicConfig]) -> None:
        """Set the configurations of these topics' partitions, and of their copies on the way to another directory."""
        for topic_partition, partition in self.partitions.items():
            if (config := configs.get(topic_partition.topic)) is not None:
                partition.log.config = config
                if partition.log.future is not None:
                    partition.log.future.config = config

    async def stop_waiting_for_dead(self) -> None:
        """Advance high watermarks past replicas outside the ISR on brokers that died."""
        await self._portions.finish(self._stop_waiting_for_dead())

    def _stop_waiting_for_dead(self) -> Work[None]:
        for topic_partition in tuple(self._host.unsettled):
            yield
            if (partition := self._find_unsettled(topic_partition)) is not None:
                partition.stop_waiting(self.clock.monotonic_ms())

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks to disk, once roles are known."""
        if self.has_roles:
            self.logs.checkpoint_high_watermarks()

    def statistics(self) -> dict[str, int]:
        """Return counts for metrics and status pages."""
        return {"partitions": len(self.partitions), **self._host.statistics()}
