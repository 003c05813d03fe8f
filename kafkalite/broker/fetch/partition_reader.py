"""Read one partition for a Fetch request: errors, divergence, bounds, throttling, records (Kafka's ReplicaManager.readFromLog).

The rules of size are KIP-74's, reads from followers KIP-392's. A fetch that finds fewer than min.bytes waits as a `delayed_fetch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkalite.broker.fetch.down_conversion_cache import ConversionCache
from kafkalite.broker.fetch.fetch_sessions import FetchItem, FetchSession, PartitionKey
from kafkalite.broker.replication.follower_state import FetchRequester
from kafkalite.broker.replication.partition import IsrChange, Partition
from kafkalite.broker.replication.replicas import Replicas
from kafkalite.broker.settings.rates import ReplicationRate, is_throttled
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.storage.cold_reads import ColdReads
from kafkalite.storage.log.file_records import PORTION_BYTES
from kafkalite.storage.open_files import NotInMemory
from kafkalite.types import BrokerId

if TYPE_CHECKING:
    from kafkalite.storage.segments.transaction_index import AbortedTransaction

    PartitionData: TypeAlias = messages.fetch_response.PartitionData
    Answers: TypeAlias = dict[PartitionKey, PartitionData]

READ_COMMITTED = 1
BATCHES_FROM: Final = 4
"""The version of Fetch from which record batches are understood."""
TOPIC_IDS_FROM: Final = 13
"""The version of Fetch from which topics go by id."""
_MAY_BE_MADE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors of partitions that this broker may hear of any time. A session that was told them waits for records in its next fetch, which would
be answered at once, again and again. Apache Kafka waits already in the fetch that tells them first."""


@dataclass(frozen=True, slots=True)
class FetchParams:
    """The parts of a Fetch request that concern all its partitions; `replica_id` is negative for a consumer."""

    replica_id: BrokerId
    version: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    rack: str = ""

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0

    @property
    def uses_topic_ids(self) -> bool:
        return self.version >= TOPIC_IDS_FROM

    @property
    def is_debugging(self) -> bool:
        """Kafka's replica verification tool, which followers serve in every version."""
        return self.replica_id == -2


AWAITED_PARTITIONS_MAX: Final = 500_000


@dataclass(slots=True)
class PartitionReader:
    """Answers one partition of a fetch. `choose_replica` is KIP-392's selector, None when there is none."""

    replicas: Replicas
    propose_isr: Callable[[Partition, IsrChange], None]
    throttled_rate: ReplicationRate
    choose_replica: Callable[[Partition, str], BrokerId | None] | None = None
    cold_reads: ColdReads = field(default_factory=ColdReads)
    conversion_cache: ConversionCache = field(default_factory=ConversionCache)
    awaited_partitions: int = 0
    """Of fetches without a session that wait, each of which keeps half a KiB for each."""

    def may_wait_for(self, partitions: int) -> bool:
        """May a fetch without a session wait for so many partitions more?"""
        return self.awaited_partitions + partitions <= AWAITED_PARTITIONS_MAX

    def read(
        self, item: FetchItem, params: FetchParams, budget: int, min_one: bool, requester: FetchRequester
    ) -> PartitionData:
        """The answer as PartitionData; errors are in it. `budget` is what is left of the whole response in bytes."""
        data = messages.fetch_response.PartitionData(
            partition_index=item.topic_partition.partition,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            records=b"",  # never null: librdkafka cannot parse an answer without records, and would ask for ever
        )
        item.is_drained, item.is_full = True, False
        if item.is_denied:
            data.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return data
        try:
            partition = self.replicas.require(item.topic_partition)
            self._check_topic_id(partition, item)
            if params.is_follower or partition.is_leader or (params.version <= 10 and not params.is_debugging):
                partition.require_leader(item.current_leader_epoch)
            else:
                partition.require_epoch(item.current_leader_epoch)
            self._fill(data, partition, item, params, budget, min_one, requester)
        except KafkaError as problem:
            data.error_code = problem.code
            if problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                data.aborted_transactions = []  # as Kafka, which has null for all that it finds later
                if item.is_nameless and params.uses_topic_ids:
                    data.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        return data

    def _check_topic_id(self, partition: Partition, item: FetchItem) -> None:
        if any(item.topic_id) and any(partition.topic_id) and item.topic_id != partition.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)

    def _fill(
        self,
        data: PartitionData,
        partition: Partition,
        item: FetchItem,
        params: FetchParams,
        budget: int,
        min_one: bool,
        requester: FetchRequester,
    ) -> None:
        log = partition.log
        if params.is_follower and params.replica_id not in partition.followers:
            code = (
                ErrorCode.UNKNOWN_LEADER_EPOCH if item.current_leader_epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
            raise KafkaError(code)
        if item.last_fetched_epoch >= 0 and self._diverges(data, partition, item):
            return
        if not log.log_start_offset <= item.fetch_offset <= log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if params.is_follower:
            self._note_follower(partition, item, params.replica_id, requester)
            upper_bound = log.log_end_offset
        elif params.isolation_level == READ_COMMITTED:
            upper_bound = log.last_stable_offset
        else:
            upper_bound = log.high_watermark
        data.high_watermark = log.high_watermark
        data.last_stable_offset = log.last_stable_offset
        data.log_start_offset = log.log_start_offset
        if self.choose_replica is not None and params.rack and partition.is_leader and not params.is_follower:
            preferred = self.choose_replica(partition, params.rack)
            if preferred is not None and preferred != partition.local_id:
                data.preferred_read_replica = preferred
                data.records = b""
                return
        data.records = b""
        # Who is outside the ISR is looked at in each of its fetches: whether it may join can change without a record.
        item.is_drained = item.fetch_offset >= upper_bound and (
            not params.is_follower or params.replica_id in partition.isr
        )
        if item.fetch_offset < upper_bound and (budget > 0 or min_one):
            throttled = params.is_follower and is_throttled(
                log.config.leader_replication_throttled_replicas, item.topic_partition.partition, partition.local_id
            )
            now_ms = self.replicas.clock.monotonic_ms() if throttled else 0.0
            if throttled and self._must_pause(partition, params.replica_id, now_ms):
                return
            size = min(item.max_bytes, budget)
            is_much = params.max_bytes - budget + size > PORTION_BYTES
            read = log.read(
                item.fetch_offset,
                max(size, 0),
                upper_bound=upper_bound,
                min_one_batch=min_one,
                to_send=is_much and params.version >= BATCHES_FROM,
            )
            records = read.records if read.large is None else read.large
            item.is_full = read.is_full
            data.records = records  # type: ignore[assignment]  # to the codec they are a buffer: see `FileRecords`
            if throttled:
                self.throttled_rate.add(len(records), now_ms)
            if params.isolation_level == READ_COMMITTED and not params.is_follower:
                data.aborted_transactions = _aborted(log.aborted_transactions(item.fetch_offset, upper_bound, read))
        elif params.isolation_level == READ_COMMITTED and not params.is_follower:
            data.aborted_transactions = []

    def _must_pause(self, partition: Partition, replica_id: BrokerId, now_ms: float) -> bool:
        """Is the rate of throttled replicas exceeded, and nobody kept waiting when this one gets nothing for now?

        Kafka exempts the ISR only, so that a replica about to join it may stop acks=all for replica.lag.time.max.ms.
        """
        return self.throttled_rate.is_exceeded(now_ms) and not partition.waits_for(replica_id, now_ms)

    def _diverges(self, data: PartitionData, partition: Partition, item: FetchItem) -> bool:
        """Does the fetcher's log end in records that ours does not have (KIP-595's truncation on fetch)?"""
        epoch, end_offset = partition.log.end_offset_for_epoch(item.last_fetched_epoch)
        if end_offset < 0:
            if partition.log.latest_epoch is None and item.last_fetched_epoch == partition.leader_epoch:
                # What it has it got from us, before messages of an older format ended the history of epochs.
                return False
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch >= item.last_fetched_epoch and end_offset >= item.fetch_offset:
            return False
        data.diverging_epoch = messages.fetch_response.EpochEndOffset(epoch=epoch, end_offset=end_offset)
        log = partition.log
        data.high_watermark, data.log_start_offset = log.high_watermark, log.log_start_offset
        data.last_stable_offset = log.last_stable_offset
        data.records = b""
        return True

    def _note_follower(
        self, partition: Partition, item: FetchItem, replica_id: BrokerId, requester: FetchRequester
    ) -> None:
        now_ms = self.replicas.clock.monotonic_ms()
        change = partition.follower_fetched(replica_id, item.fetch_offset, item.log_start_offset, now_ms, requester)
        if change is not None:
            self.propose_isr(partition, change)

    def read_in_memory(
        self, items: Iterable[FetchItem], params: FetchParams, requester: FetchRequester, so_far: int = 0
    ) -> tuple[Answers, int, bool]:
        """As `read_all`, without waiting for a medium: what is not in memory is loaded for the next fetch.

        Raises NotInMemory when there is nothing else to answer with.
        """
        return self._read_all(items, params, requester, self._read_or_load, so_far)

    def _read_or_load(
        self, item: FetchItem, params: FetchParams, budget: int, min_one: bool, requester: FetchRequester
    ) -> PartitionData:
        partition = self.replicas.partitions.get(item.topic_partition)
        if partition is None:
            return self.read(item, params, budget, min_one, requester)
        try:
            with partition.log.only_in_memory:
                return self.read(item, params, budget, min_one, requester)
        except NotInMemory as cold:
            if min_one:
                raise
            self.cold_reads.load(cold)
            item.is_drained = False
            return self.read(item, params, 0, False, requester)

    def read_all(
        self, items: Iterable[FetchItem], params: FetchParams, requester: FetchRequester, so_far: int = 0
    ) -> tuple[Answers, int, bool]:
        """(answers, bytes of records, whether there is a reason to answer at once, however few bytes they are).

        The bytes are counted from `so_far`, what was read of other partitions for the same response.
        """
        return self._read_all(items, params, requester, self.read, so_far)

    def _read_all(
        self,
        items: Iterable[FetchItem],
        params: FetchParams,
        requester: FetchRequester,
        read: Callable[..., PartitionData],
        so_far: int,
    ) -> tuple[Answers, int, bool]:
        answers: Answers = {}
        total, urgent = so_far, False
        for item in items:
            data = read(item, params, params.max_bytes - total, total == 0, requester)
            answers[item.key] = data
            total += len(data.records or b"")
            code = data.error_code
            if item.is_full or code or data.diverging_epoch is not None or data.preferred_read_replica >= 0:
                urgent = urgent or code != item.told_error or code not in _MAY_BE_MADE
        return answers, total, urgent


def _aborted(found: Iterable[AbortedTransaction]) -> list[messages.fetch_response.AbortedTransaction]:
    kind = messages.fetch_response.AbortedTransaction
    return [kind(producer_id=each.producer_id, first_offset=each.first_offset) for each in found]


class SessionlessWatch:
    """Watches the partitions of one delayed fetch that has no session; and who requested it."""

    def __init__(self, now_ms: float) -> None:
        self.last_fetch_ms = now_ms
        self.on_ready: Callable[[Partition, bool], None] | None = None

    def appended(self, partition: Partition) -> None:
        if self.on_ready is not None:
            self.on_ready(partition, True)

    def high_watermark_moved(self, partition: Partition) -> None:
        if self.on_ready is not None:
            self.on_ready(partition, True)


def changed_answers(session: FetchSession, answers: Answers) -> Answers:
    """Of an incremental fetch: what the answer must contain; also notes what the client knows from now on (KIP-227)."""
    told: Answers = {}
    for key, data in answers.items():
        item = session.items.get(key)
        if item is None:
            continue
        news = (
            bool(data.records)
            or data.error_code != 0
            or data.diverging_epoch is not None
            or data.preferred_read_replica >= 0
            or data.high_watermark != item.told_high_watermark
            or data.log_start_offset != item.told_log_start_offset
        )
        if news:
            told[key] = data
            note_told(item, data)
        note_look(session, item, data)
    return told


def note_look(session: FetchSession, item: FetchItem, data: PartitionData) -> None:
    """A partition with nothing more to read is looked at again when it reports a change; who got something goes to the back."""
    key = item.key
    if data.records or data.error_code:
        session.ready.pop(key, None)
        session.ready[key] = None
    elif item.is_drained:
        session.ready.pop(key, None)


def note_told(item: FetchItem, data: PartitionData) -> None:
    """Remember what the client knows now; after an error it knows nothing."""
    item.told_high_watermark = -1 if data.error_code else data.high_watermark
    item.told_log_start_offset = -1 if data.error_code else data.log_start_offset
    item.told_error = data.error_code
