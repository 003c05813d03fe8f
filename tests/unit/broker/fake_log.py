"""A partition's log for tests of the broker's rules: every record is one byte, and offsets are all that counts."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from kafkalite.broker.replication.action_queue import ActionQueue
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.replication.partition_host import PartitionHost
from kafkalite.config.topic import TopicConfig
from kafkalite.controller.control_requests import LeaderAndIsrPartition
from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.records import BatchHeader
from kafkalite.storage.log.append_checks import AppendOrigin, AppendResult, ClientCheck
from kafkalite.storage.log.log_read import LogRead
from kafkalite.storage.producers.verification import UNGUARDED, VerificationGuard
from kafkalite.storage.segments.transaction_index import AbortedTransaction
from kafkalite.types import BrokerId, Buffer, TopicPartition

TP = TopicPartition("t", 0)
LAG_MAX_MS = 30_000.0


class FakeEpochs(list[tuple[int, int]]):
    """(leader epoch, first offset) of each."""

    def epoch_for_offset(self, offset: int) -> int | None:
        return max((epoch for epoch, start in self if start <= offset), default=None)


@dataclass
class FakeLogDirectory:
    """A log directory that is online unless a test gives a reason."""

    offline_reason: str | None = None


class FakeSegments:
    """Counts how often what a log that grows keeps was freed."""

    def __init__(self) -> None:
        self.freed = 0

    def free_idle(self) -> None:
        self.freed += 1


@dataclass
class FakeLog:
    """The part of `PartitionLog` that the broker's rules use."""

    config: TopicConfig = field(default_factory=TopicConfig)
    topic_id: bytes = bytes(range(16))
    log_start_offset: int = 0
    log_end_offset: int = 0
    high_watermark: int = 0
    last_stable_offset: int = 0
    epochs: FakeEpochs = field(default_factory=FakeEpochs)
    reads: list[tuple[int, int]] = field(default_factory=list)

    segments: FakeSegments = field(default_factory=FakeSegments)
    future: FakeLog | None = None
    only_in_memory: AbstractContextManager[None] = field(default_factory=nullcontext)
    log_directory: FakeLogDirectory = field(default_factory=FakeLogDirectory)
    failures: list[KafkaError] = field(default_factory=list)
    """What the next appends as a follower raise."""
    followed_epochs: list[int | None] = field(default_factory=list)
    """The leader epoch of each append as a follower."""

    @property
    def size_bytes(self) -> int:
        return self.log_end_offset - self.log_start_offset

    @property
    def latest_epoch(self) -> int | None:
        return self.epochs[-1][0] if self.epochs else None

    def assign_epoch(self, epoch: int) -> None:
        self.epochs.append((epoch, self.log_end_offset))

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        if not self.epochs or epoch < 0:
            return -1, -1
        if epoch == self.latest_epoch:
            return epoch, self.log_end_offset
        higher = [start for known, start in self.epochs if known > epoch]
        lower = [known for known, _ in self.epochs if known <= epoch]
        if not higher:
            return -1, -1
        return (lower[-1] if lower else epoch), higher[0]

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        request_version: int = 9,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        check: ClientCheck = None,
        guard: VerificationGuard = UNGUARDED,
    ) -> AppendResult:
        first = self.log_end_offset
        self.log_end_offset += len(records)
        return AppendResult(first, self.log_end_offset - 1, -1, self.log_start_offset)

    def append_plain(self, records: bytearray, headers: list[BatchHeader], leader_epoch: int, now_ms: int) -> int:
        first = self.log_end_offset
        self.log_end_offset += len(headers)
        return first

    def append_as_follower(self, records: Buffer, *, now_ms: int, leader_epoch: int | None = None) -> None:
        self.followed_epochs.append(leader_epoch)
        if self.failures:
            raise self.failures.pop(0)
        self.log_end_offset += len(records)

    def delete_records(self, offset: int) -> int:
        self.log_start_offset = max(self.log_start_offset, offset)
        return self.log_start_offset

    def set_high_watermark(self, offset: int) -> None:
        self.high_watermark = self.last_stable_offset = offset

    def set_topic_id(self, topic_id: bytes) -> None:
        self.topic_id = topic_id

    def truncate_to(self, offset: int) -> None:
        self.log_end_offset = min(self.log_end_offset, offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)

    def truncate_without_epochs(self, offset: int) -> None:
        self.truncate_to(offset)
        self.epochs.clear()

    def read(
        self, offset: int, max_bytes: int, *, upper_bound: int, min_one_batch: bool, to_send: bool = False
    ) -> LogRead:
        """Every record is a batch of its own."""
        self.reads.append((offset, max_bytes))
        size = min(upper_bound - offset, max(max_bytes, 1 if min_one_batch else 0))
        return LogRead(bytes(size))

    def aborted_transactions(self, from_offset: int, upper_bound: int, read: LogRead) -> list[AbortedTransaction]:
        return [AbortedTransaction(8, from_offset, upper_bound, upper_bound)]


def assignment(
    leader: BrokerId = 1,
    leader_epoch: int = 0,
    isr: tuple[BrokerId, ...] = (1, 2, 3),
    replicas: tuple[BrokerId, ...] = (1, 2, 3),
    partition_epoch: int = 0,
) -> LeaderAndIsrPartition:
    """What LeaderAndIsr says."""
    return LeaderAndIsrPartition(
        TP,
        controller_epoch=1,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        isr=isr,
        replicas=replicas,
    )


def make_partition(
    log: FakeLog | None = None,
    alive: set[BrokerId] | None = None,
    topic_partition: TopicPartition = TP,
    actions: ActionQueue | None = None,
) -> Partition:
    """On broker 1; every broker is alive unless `alive` says who is. Without `actions`, who waits is told at once."""
    return Partition(
        topic_partition,
        log or FakeLog(),  # type: ignore[arg-type]
        PartitionHost(
            1,
            LAG_MAX_MS,
            lambda broker: alive is None or broker in alive,
            actions or ActionQueue(schedule=lambda run: run()),
        ),
    )
