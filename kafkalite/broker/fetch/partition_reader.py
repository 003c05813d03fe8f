"""Read one partition for a Fetch request: errors, divergence, bounds, throttling, records (Kafka's ReplicaManager.readFromLog).

The rules of size are KIP-74's, reads from followers KIP-392's. A fetch that finds fewer than min.bytes waits as a `delayed_fetch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkalite.broker.fetch.down_conversion_cache import ConversionCache
from kafkalite.broker.replication.effects import IsrChange
from kafkalite.broker.replication.follower_state import FetchRequester
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.replication.replicas import Replicas
from kafkalite.broker.settings.rates import ReplicationRate, is_throttled
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.storage.cold_reads import LOADS_LIMIT, ColdReads
from kafkalite.storage.log.file_records import PORTION_BYTES
from kafkalite.storage.open_files import NotInMemory
from kafkalite.types import NO_TOPIC_ID, BrokerId

if TYPE_CHECKING:
    from kafkalite.broker.fetch.fetch_sessions import Answers, FetchItem, PartitionData
    from kafkalite.storage.segments.transaction_index import AbortedTransaction

    ReadAnswers: TypeAlias = tuple[Answers, int, bool]
    """Answers, bytes of records, and True if there is a reason to answer at once, however few bytes they are."""

READ_COMMITTED = 1
BATCHES_FROM: Final = 4
"""The version of Fetch from which record batches are understood."""
TOPIC_IDS_FROM: Final = 13
"""The version of Fetch from which topics go by id."""
_MAY_BE_CREATED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors that end once the controller tells this broker of the topic. A session that was sent one waits in its next fetch, which would
be answered at once, again and again. Apache Kafka waits already in the fetch that has such an error first."""


@dataclass(frozen=True, slots=True)
class FetchParams:
    """Parameters of all partitions of a fetch (Kafka's FetchParams); `replica_id` is negative for a consumer."""

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
        """True for Kafka's replica verification tool, which followers serve in every version."""
        return self.replica_id == -2


AWAITED_PARTITIONS_MAX: Final = 500_000
"""Partitions that delayed fetches without a session may wait for together; half a KiB is kept for each."""


@dataclass(slots=True)
class PartitionReader:
    """Reads partitions for fetches. `choose_replica` is KIP-392's selector, None without one."""

    replicas: Replicas
    propose_isr: Callable[[Partition, IsrChange], None]
    throttled_rate: ReplicationRate
    choose_replica: Callable[[Partition, str], BrokerId | None] | None = None
    cold_reads: ColdReads = field(default_factory=ColdReads)
    conversion_cache: ConversionCache = field(default_factory=ConversionCache)
    awaited_partitions: int = 0
    """Partitions that delayed fetches without a session wait for."""

    def may_wait_for(self, partitions: int) -> bool:
        """True if a fetch without a session may wait for so many partitions more."""
        return self.awaited_partitions + partitions <= AWAITED_PARTITIONS_MAX

    def read(
        self, item: FetchItem, params: FetchParams, budget: int, min_one: bool, requester: FetchRequester
    ) -> PartitionData:
        """Return the answer of one partition, errors included. `budget` is what is left of max.bytes for the response."""
        data = messages.fetch_response.PartitionData(
            partition_index=item.topic_partition.partition,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            records=b"",  # never null: librdkafka cannot parse an answer without records, and would retry for ever
        )
        item.is_drained, item.is_full = True, False
        if item.is_denied:
            data.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return data
        try:
            partition = self.replicas.require(item.topic_partition)
            if partition.topic_id != item.topic_id != NO_TOPIC_ID != partition.topic_id:
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
            if params.is_follower or partition.is_leader or (params.version <= 10 and not params.is_debugging):
                partition.require_leader(item.current_leader_epoch)
            else:
                partition.require_epoch(item.current_leader_epoch)
            if params.is_follower and params.replica_id not in partition.followers:
                knows_epoch = item.current_leader_epoch >= 0
                raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._fill(data, partition, item, params, budget, min_one, requester)
        except KafkaError as problem:
            data.error_code = problem.code
            if problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                data.aborted_transactions = []  # as Kafka, which has null for all errors that it finds later
                if item.is_unresolved and params.uses_topic_ids:
                    data.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        return data

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
        log, is_follower = partition.log, params.is_follower
        if item.last_fetched_epoch >= 0 and self._diverges(data, partition, item):
            return
        if not log.log_start_offset <= item.fetch_offset <= log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        reads_committed = params.isolation_level == READ_COMMITTED and not is_follower
        if is_follower:
            self._note_follower(partition, item, params.replica_id, requester)
            upper_bound = log.log_end_offset
        elif reads_committed:
            upper_bound = log.last_stable_offset
        else:
            upper_bound = log.high_watermark
        data.high_watermark, data.last_stable_offset = log.high_watermark, log.last_stable_offset
        data.log_start_offset = log.log_start_offset
        if self.choose_replica is not None and params.rack and partition.is_leader and not is_follower:
            preferred = self.choose_replica(partition, params.rack)
            if preferred is not None and preferred != partition.local_id:
                data.preferred_read_replica = preferred
                return
        # A replica outside the ISR is read for in each fetch until it is about to join: whether it may can change without a record.
        is_outside = is_follower and params.replica_id not in partition.maximal_isr
        item.is_drained = item.fetch_offset >= upper_bound and not is_outside
        if item.fetch_offset < upper_bound and (budget > 0 or min_one):
            throttled = is_follower and is_throttled(
                log.config.leader_replication_throttled_replicas, item.topic_partition.partition, partition.local_id
            )
            now_ms = self.replicas.clock.monotonic_ms() if throttled else 0.0
            if throttled and self._must_throttle(partition, params.replica_id, now_ms):
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
            if reads_committed:
                aborted = log.aborted_transactions(item.fetch_offset, upper_bound, read)
                data.aborted_transactions = _encode_aborted(aborted)
        elif reads_committed:
            data.aborted_transactions = []

    def _must_throttle(self, partition: Partition, replica_id: BrokerId, now_ms: float) -> bool:
        """True if the rate of throttled replicas is exceeded, and the high watermark does not wait for this one (KIP-73).

        Kafka exempts the ISR only, so that a replica about to join it may stop acks=all for replica.lag.time.max.ms.
        """
        return self.throttled_rate.is_exceeded(now_ms) and not partition.waits_for(replica_id, now_ms)

    def _diverges(self, data: PartitionData, partition: Partition, item: FetchItem) -> bool:
        """True, with the diverging epoch in `data`, if the follower's log ends in records that this one has not (KIP-595)."""
        epoch, end_offset = partition.log.end_offset_for_epoch(item.last_fetched_epoch)
        if end_offset < 0:
            if partition.log.latest_epoch is None and item.last_fetched_epoch == partition.leader_epoch:
                # The follower fetched all it has from here, before messages of an older format ended the history of epochs.
                return False
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch >= item.last_fetched_epoch and end_offset >= item.fetch_offset:
            return False
        data.diverging_epoch = messages.fetch_response.EpochEndOffset(epoch=epoch, end_offset=end_offset)
        log = partition.log
        data.high_watermark, data.log_start_offset = log.high_watermark, log.log_start_offset
        data.last_stable_offset = log.last_stable_offset
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
    ) -> ReadAnswers:
        """Read partitions without waiting for the medium: records that are not in memory are loaded for the next fetch.

        `so_far` is the number of bytes read of other partitions for the same response. Raises NotInMemory if nothing else can be answered.
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

    async def load_and_read(
        self,
        cold: NotInMemory,
        params: FetchParams,
        select_items: Callable[[], tuple[Iterable[FetchItem], FetchRequester]],
        so_far: int = 0,
    ) -> ReadAnswers:
        """Read partitions as `read_in_memory` once the first records are in memory; after `LOADS_LIMIT` loads wait for the medium."""
        for _ in range(LOADS_LIMIT):
            await self.cold_reads.load(cold)
            items, requester = select_items()
            try:
                return self.read_in_memory(items, params, requester, so_far)
            except NotInMemory as still_cold:
                cold = still_cold
        items, requester = select_items()
        return self.read_all(items, params, requester, so_far)

    def read_all(
        self, items: Iterable[FetchItem], params: FetchParams, requester: FetchRequester, so_far: int = 0
    ) -> ReadAnswers:
        """Read partitions, from the medium where need be; `so_far` is the number of bytes read of others for the same response."""
        return self._read_all(items, params, requester, self.read, so_far)

    def _read_all(
        self,
        items: Iterable[FetchItem],
        params: FetchParams,
        requester: FetchRequester,
        read: Callable[..., PartitionData],
        so_far: int,
    ) -> ReadAnswers:
        answers: Answers = {}
        total, urgent = so_far, False
        for item in items:
            data = read(item, params, params.max_bytes - total, total == 0, requester)
            answers[item.key] = data
            total += len(data.records or b"")
            code = data.error_code
            if item.is_full or code or data.diverging_epoch is not None or data.preferred_read_replica >= 0:
                urgent = urgent or code != item.sent_error or code not in _MAY_BE_CREATED
        return answers, total, urgent


def _encode_aborted(transactions: Iterable[AbortedTransaction]) -> list[messages.fetch_response.AbortedTransaction]:
    kind = messages.fetch_response.AbortedTransaction
    return [kind(producer_id=each.producer_id, first_offset=each.first_offset) for each in transactions]
