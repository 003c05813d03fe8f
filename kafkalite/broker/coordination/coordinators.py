"""The coordinators of this broker: connects their runtimes with partitions, roles and topics."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.broker.replication.partition import Partition
from kafkalite.clock import Clock
from kafkalite.coordinators.group.machine import GroupMachine
from kafkalite.coordinators.group.requests import ForgetPartitions
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.coordinators.runtime import CoordinatorRuntime, HostingRules
from kafkalite.coordinators.transaction.machine import TransactionMachine
from kafkalite.coordinators.transaction.requests import MarkersWritten, WriteMarkers
from kafkalite.coordinators.transaction.settings import TransactionSettings
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.storage.log.append_checks import AppendOrigin
from kafkalite.storage.producers.verification import VerificationGuard
from kafkalite.types import NO_BROKER, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kafkalite.config.broker import LiveConfig


class PartitionLogPort:
    """A led partition as the `InternalLog` of a coordinator; its batches bypass what binds producers."""

    def __init__(self, partition: Partition, clock: Clock, required_acks: int) -> None:
        self._partition, self._clock, self._acks = partition, clock, required_acks

    @property
    def start_offset(self) -> int:
        return self._partition.log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._partition.log.log_end_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from `offset`, at least one; `max_bytes` otherwise."""
        return bytes(
            self._partition.log.read(offset, max_bytes, upper_bound=self.end_offset, min_one_batch=True).records
        )

    def append(self, batch: bytearray, guard: VerificationGuard) -> int:
        """Append a batch, return its first offset. MESSAGE_TOO_LARGE above the topic's max.message.bytes."""
        partition = self._partition
        partition.require_leader()
        limit = partition.log.config.max_message_bytes
        if len(batch) > limit:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{len(batch)} bytes; max.message.bytes is {limit}")
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        return partition.append(
            batch, self._acks, now_ms, wall_ms, guard=guard, origin=AppendOrigin.COORDINATOR
        ).first_offset

    def when_committed(self, end_offset: int, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` once the high watermark reaches `end_offset`, or with the reason why it will not."""
        if self._partition.is_leader:
            self._partition.when_committed(end_offset, done)
        else:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Coordinators:
    """The group and the transaction coordinator of a broker.

    `spawn` and `fatal` as `CoordinatorRuntime` has them; `send_markers(partition, WriteMarkers)` has markers written, and
    `markers_written` is called when they are.
    """

    def __init__(
        self,
        live: LiveConfig,
        metadata: MetadataCache,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None], str], Any],
        fatal: Callable[[str], None],
        send_markers: Callable[[int, WriteMarkers], None],
    ) -> None:
        self._metadata, self._clock = metadata, clock
        config = live.current  # nothing here is dynamic
        settings = GroupSettings.from_config(config)
        self.groups = CoordinatorRuntime(
            OFFSETS_TOPIC,
            HostingRules(
                load_buffer_bytes=config.offsets_load_buffer_size,
                append_timeout_ms=config.offsets_commit_timeout_ms,
                codec=config.offsets_topic_compression_codec,
                required_acks=config.offsets_commit_required_acks,
            ),
            lambda _: GroupMachine(settings),
            lambda: self._count_partitions(OFFSETS_TOPIC, config.offsets_topic_num_partitions),
            clock,
            spawn,
            fatal,
        )
        transaction_settings = TransactionSettings.from_config(config)
        self.transactions = CoordinatorRuntime(
            TRANSACTIONS_TOPIC,
            HostingRules(
                load_buffer_bytes=config.transaction_state_log_load_buffer_size,
                append_timeout_ms=config.request_timeout_ms,
                codec=0,
                required_acks=-1,
            ),
            lambda _: TransactionMachine(transaction_settings),
            lambda: self._count_partitions(TRANSACTIONS_TOPIC, config.transaction_state_log_num_partitions),
            clock,
            spawn,
            fatal,
            send_markers,
        )
        self._by_topic: dict[str, CoordinatorRuntime[Any]] = {
            OFFSETS_TOPIC: self.groups,
            TRANSACTIONS_TOPIC: self.transactions,
        }

    def _count_partitions(self, topic: str, configured: int) -> int:
        known = self._metadata.topics.get(topic)
        return len(known.partitions) if known is not None else configured

    def apply_roles(self, leading: Iterable[Partition], not_leading: Iterable[Partition]) -> None:
        """Elect and resign coordinators as partitions change hands or leave this broker."""
        for partition in not_leading:
            runtime = self._by_topic.get(partition.topic_partition.topic)
            if runtime is not None:
                epoch = partition.leader_epoch if partition.leader != NO_BROKER else None
                runtime.on_resignation(partition.topic_partition.partition, epoch)
        for partition in leading:
            runtime = self._by_topic.get(partition.topic_partition.topic)
            if runtime is not None:
                log = PartitionLogPort(partition, self._clock, runtime.rules.required_acks)
                runtime.on_election(partition.topic_partition.partition, partition.leader_epoch, log)

    def forget_partitions(self, removed: list[TopicPartition]) -> None:
        """Remove the committed offsets of partitions that were deleted from the cluster."""
        by_topic: dict[str, list[TopicPartition]] = {}
        for each in removed:
            by_topic.setdefault(each.topic, []).append(each)
        if by_topic:
            self.groups.broadcast(ForgetPartitions(by_topic))

    def markers_written(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        """Notify the coordinator that all markers of a transaction are written, if it is still on this broker."""
        with suppress(KafkaError):
            written = MarkersWritten(transactional_id, producer_id, producer_epoch)
            self.transactions.submit(transactional_id, written, lambda reply: reply)

    def close(self) -> None:
        """Resign all roles, at shutdown."""
        for runtime in self._by_topic.values():
            runtime.close()
