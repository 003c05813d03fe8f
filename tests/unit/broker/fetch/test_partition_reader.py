"""What a partition answers to a fetch, and when a fetch that waits is answered (KIP-74, KIP-227, KIP-595)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafkalite.broker.fetch.delayed_fetch import DelayedFetch
from kafkalite.broker.fetch.fetch_contexts import SessionlessWatch
from kafkalite.broker.fetch.fetch_sessions import FetchItem, FetchSession
from kafkalite.broker.fetch.partition_reader import (
    READ_COMMITTED,
    FetchParams,
    PartitionReader,
)
from kafkalite.broker.replication.effects import IsrChange
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.settings.rates import ReplicationRate
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Portions
from kafkalite.storage.log.log_read import LogRead
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.broker.fake_log import TP, FakeLog, assignment, make_partition

OTHER = TopicPartition("t", 1)


@dataclass
class Hosted:
    """The part of `Replicas` that reading uses."""

    partitions: dict[TopicPartition, Partition]
    now_ms: float = 0.0
    proposed: list[IsrChange] = field(default_factory=list)

    @property
    def clock(self) -> Any:
        return self

    def monotonic_ms(self) -> float:
        return self.now_ms

    def require(self, topic_partition: TopicPartition) -> Partition:
        if topic_partition not in self.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partitions[topic_partition]


def leader(end: int = 10, committed: int = 6, topic_partition: TopicPartition = TP, epoch: int = 4) -> Partition:
    """A leader with `end` records of one byte."""
    partition = make_partition(FakeLog(log_end_offset=end), topic_partition=topic_partition)
    partition.become_leader(assignment(leader_epoch=epoch, isr=(1, 2)), 0.0)
    partition.log.set_high_watermark(committed)
    return partition


def reader(*partitions: Partition, **options: Any) -> PartitionReader:
    hosted = Hosted({each.topic_partition: each for each in partitions})
    options = {"throttled_rate": ReplicationRate(11, 1000, lambda: 1e18), **options}
    return PartitionReader(hosted, lambda partition, change: hosted.proposed.append(change), **options)  # type: ignore[arg-type]


def limits(replica_id: int = -1, **changes: Any) -> FetchParams:
    fields = {"version": 12, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1000, "isolation_level": 0, **changes}
    return FetchParams(replica_id, **fields)


def item(offset: int = 0, topic_partition: TopicPartition = TP, max_bytes: int = 1000, **more: Any) -> FetchItem:
    return FetchItem(topic_partition, topic_partition, bytes(16), offset, max_bytes, **more)


def read(partition: Partition, asked: FetchItem, bounds: FetchParams | None = None, budget: int = 1000) -> Any:
    return reader(partition).read(asked, bounds or limits(), budget, True, SessionlessWatch(0.0))


def test_consumers_read_what_is_committed_and_followers_all() -> None:
    assert len(read(leader(), item(2)).records) == 4
    assert len(read(leader(), item(2), limits(replica_id=2)).records) == 8
    transactions = leader()
    transactions.log.last_stable_offset = 3
    data = read(transactions, item(2), limits(isolation_level=READ_COMMITTED))
    assert len(data.records) == 1
    assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions] == [(8, 2)]


def test_an_answer_says_how_far_the_log_goes() -> None:
    data = read(leader(), item(6))
    assert (data.error_code, data.high_watermark, data.log_start_offset, bytes(data.records)) == (0, 6, 0, b"")


def test_an_unknown_partition_has_no_aborted_transactions_rather_than_none_to_tell() -> None:
    """Byte for byte as Kafka answers, which has null there for the errors of partitions that it knows."""
    data = reader().read(item(), limits(), 1000, True, SessionlessWatch(0.0))
    assert (data.error_code, data.aborted_transactions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert read(leader(), item(99)).aborted_transactions is None


@pytest.mark.parametrize("offset", [-1, 11])
def test_offsets_outside_the_log(offset: int) -> None:
    assert read(leader(), item(offset)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_above_the_high_watermark_a_consumer_waits() -> None:
    data = read(leader(), item(9))
    assert (data.error_code, bytes(data.records)) == (0, b"")


@pytest.mark.parametrize(
    ("epoch", "code"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH), (4, ErrorCode.NONE)]
)
def test_leader_epochs_are_compared(epoch: int, code: ErrorCode) -> None:
    assert read(leader(), item(0, current_leader_epoch=epoch)).error_code == code


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_follower_that_is_no_replica(epoch: int, code: ErrorCode) -> None:
    assert read(leader(), item(0, current_leader_epoch=epoch), limits(replica_id=9)).error_code == code


def test_another_topic_id_is_another_topic() -> None:
    asked = item()
    asked.topic_id = b"another topic id"
    assert read(leader(), asked).error_code == ErrorCode.INCONSISTENT_TOPIC_ID


@pytest.mark.parametrize(("version", "code"), [(10, ErrorCode.NOT_LEADER_OR_FOLLOWER), (11, ErrorCode.NONE)])
def test_consumers_of_version_11_may_read_from_followers(version: int, code: ErrorCode) -> None:
    partition = make_partition(FakeLog(log_end_offset=5, high_watermark=5))
    partition.become_follower(assignment(leader=2, leader_epoch=1))
    assert read(partition, item(0), limits(version=version)).error_code == code
    assert read(partition, item(0), limits(replica_id=3)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_log_that_went_another_way_is_told_where() -> None:
    partition = make_partition(FakeLog(log_end_offset=20, epochs=[(1, 0), (3, 8)]))
    partition.become_leader(assignment(leader_epoch=4), 0.0)
    data = read(partition, item(12, last_fetched_epoch=2), limits(replica_id=2))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (1, 8)
    assert bytes(data.records) == b""
    assert partition.followers[2].log_end_offset == -1, "what it asked for says nothing of what it has"
    same = read(partition, item(12, last_fetched_epoch=3), limits(replica_id=2))
    assert same.diverging_epoch is None
    longer = read(partition, item(21, last_fetched_epoch=3), limits(replica_id=2))
    assert (longer.diverging_epoch.epoch, longer.diverging_epoch.end_offset) == (3, 20)
    assert read(partition, item(12, last_fetched_epoch=9), limits(replica_id=2)).error_code == 1


def test_a_leader_that_went_back_to_a_format_without_epochs_goes_on_with_those_who_follow_it() -> None:
    log = FakeLog(log_end_offset=20)
    partition = make_partition(log)
    partition.become_leader(assignment(leader_epoch=4), 0.0)
    log.epochs.clear()
    assert read(partition, item(12, last_fetched_epoch=4), limits(replica_id=2)).error_code == 0
    older = read(partition, item(12, last_fetched_epoch=3), limits(replica_id=2))
    assert older.error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "nobody knows whether it has the same records"


def test_a_follower_that_fetches_is_noted_and_may_join_the_isr() -> None:
    partition = leader()
    reading = reader(partition)
    reading.read(item(10), limits(replica_id=3), 100, True, SessionlessWatch(0.0))
    assert partition.followers[3].log_end_offset == 10
    assert partition.pending_change is not None
    assert reading.replicas.proposed == [partition.pending_change]  # type: ignore[attr-defined]


@pytest.mark.parametrize("obstacle", ["not alive", "refused"])
def test_a_follower_that_may_not_join_yet_joins_an_idle_partition_when_it_may(obstacle: str) -> None:
    """All brokers were killed at once. The new leader heard that the followers lead a life again after these had caught up, and its only
    other way to notice them were records, which min.insync.replicas refused: nobody could write for ever.
    """
    alive = {1} if obstacle == "not alive" else {1, 2, 3}
    partition = make_partition(FakeLog(log_end_offset=10), alive=alive)
    partition.become_leader(assignment(leader_epoch=4, isr=(1,)), 0.0)
    session = FetchSession(1, True, True, 0.0)
    session.update([item(10)])
    reading = reader(partition)

    def fetch() -> None:
        answers, _, urgent = reading.read_all(
            [session.items[tp] for tp in session.ready], limits(replica_id=3), session
        )
        session.select_changed(answers)
        assert not urgent

    fetch()
    partition.watchers = {session: None}
    if obstacle == "refused":
        assert partition.pending_change is not None
        assert not session.ready, "a replica that is about to join costs nothing"
        partition.isr_refused(partition.pending_change)
    alive.add(3)
    fetch()
    change = partition.pending_change
    assert change is not None
    assert change.isr == (1, 3)
    partition.isr_committed(change, change.isr, 4, 1, 0.0)
    fetch()
    assert not session.ready, "a member of the ISR costs nothing while nothing happens"


def test_a_nearer_replica_is_named_instead_of_records() -> None:
    chosen = reader(leader(), choose_replica=lambda partition, rack: {"r": 2, "own": 1}.get(rack))
    near = chosen.read(item(0), limits(rack="r"), 100, True, SessionlessWatch(0.0))
    assert (near.preferred_read_replica, bytes(near.records)) == (2, b"")
    own = chosen.read(item(0), limits(rack="own"), 100, True, SessionlessWatch(0.0))
    assert (own.preferred_read_replica, len(own.records)) == (-1, 6)


def test_the_limit_of_the_answer_is_shared_and_the_first_batch_always_fits() -> None:
    one, other = leader(), leader(topic_partition=OTHER)
    asked = [item(0), item(0, OTHER)]
    answers, total, urgent = reader(one, other).read_all(asked, limits(max_bytes=8), SessionlessWatch(0.0))
    assert ([len(data.records) for data in answers.values()], total, urgent) == ([6, 2], 8, False)
    answers, total, _ = reader(one, other).read_all(asked, limits(max_bytes=0), SessionlessWatch(0.0))
    assert [len(data.records) for data in answers.values()] == [1, 0]


def test_errors_are_urgent() -> None:
    _, _, urgent = reader().read_all([item()], limits(), SessionlessWatch(0.0))
    assert urgent


def test_who_waits_for_more_than_whole_batches_that_fit_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting brings no more of a large batch that is left out for want of room."""
    partition = leader()
    for is_full in (True, False):
        monkeypatch.setattr(partition.log, "read", lambda *_, full=is_full, **__: LogRead(bytes(5), is_full=full))
        _, total, urgent = reader(partition).read_all([item()], limits(min_bytes=1000), SessionlessWatch(0.0))
        assert (total, urgent) == (5, is_full)


def test_a_partition_that_found_no_room_is_read_in_the_next_fetch_of_the_session() -> None:
    """Nothing is appended meanwhile, so nobody would ever report it ready again."""
    one, other = leader(), leader(topic_partition=OTHER)
    session = FetchSession(1, False, True, 0.0)
    session.update([item(0), item(0, OTHER)])
    reading = reader(one, other)

    def fetch(max_bytes: int) -> dict[TopicPartition, int]:
        ready = [session.items[tp] for tp in session.ready]
        answers, _, _ = reading.read_all(ready, limits(max_bytes=max_bytes), session)
        return {tp: len(data.records or b"") for tp, data in session.select_changed(answers).items()}

    assert fetch(6) == {TP: 6, OTHER: 0}
    session.update([item(6)])
    assert fetch(6) == {OTHER: 6}


# Delayed fetches


@dataclass
class Waiting:
    """One delayed fetch of `partition` from `offset`, and when it was answered."""

    partition: Partition
    bounds: FetchParams
    offset: int = 0
    answered_ms: float | None = None
    released: int = 0
    looks: int = 0

    def __post_init__(self) -> None:
        self.reading = reader(self.partition)
        self.delayed = DelayedFetch(self.bounds, 0, self._gather, self._reply, self._release, lambda: 1, Portions())

    def _gather(self) -> Any:
        self.looks += 1
        return self.reading.read_all([item(self.offset)], self.bounds, SessionlessWatch(0.0))

    def _reply(self, answers: Any) -> Any:
        assert self.answered_ms is None
        self.answered_ms = asyncio.get_running_loop().time() * 1000

    def _release(self) -> None:
        self.released += 1

    def append(self, count: int) -> None:
        """Records that are committed at once."""
        log = self.partition.log
        log.log_end_offset += count
        log.set_high_watermark(log.log_end_offset)
        self.delayed.notify(self.partition, True)


def delayed(scenario: Callable[[Waiting], Any], offset: int = 10, **bounds: Any) -> Waiting:
    """Run a scenario on a delayed fetch, then let all time pass."""

    async def run() -> Waiting:
        fetch = Waiting(leader(10, 10), limits(**bounds), offset)
        await scenario(fetch)
        await asyncio.sleep(10)
        return fetch

    fetch = virtual_time.run(run())
    assert fetch.released == 1
    return fetch


async def nothing(fetch: Waiting) -> None:
    await asyncio.sleep(0)


def test_without_news_a_fetch_waits_its_time() -> None:
    assert delayed(nothing).answered_ms == 500


def test_records_answer_at_once() -> None:
    async def scenario(fetch: Waiting) -> None:
        await asyncio.sleep(0.1)
        fetch.append(1)
        fetch.append(1)

    fetch = delayed(scenario)
    assert fetch.answered_ms == 100
    assert fetch.looks == 1, "two appends in one turn of the loop are one look"


def test_fewer_bytes_than_wanted_wait_for_more() -> None:
    async def scenario(fetch: Waiting) -> None:
        fetch.delayed.note_sizes([fetch.partition])
        for milliseconds in range(1, 8):
            await asyncio.sleep(0.01)
            fetch.append(10)
            await virtual_time.settle()
            assert (fetch.answered_ms is not None) == (milliseconds >= 5)

    fetch = delayed(scenario, min_bytes=50)
    assert fetch.answered_ms == pytest.approx(50)
    assert fetch.looks == 1, "the growth of the log is counted, not read"


def test_the_first_growth_of_a_partition_that_was_not_looked_at_counts() -> None:
    async def scenario(fetch: Waiting) -> None:
        await asyncio.sleep(0.01)
        fetch.append(60)

    assert delayed(scenario, min_bytes=50).answered_ms == pytest.approx(10)


def test_a_partition_that_changed_hands_answers_at_once() -> None:
    async def scenario(fetch: Waiting) -> None:
        fetch.delayed.note_sizes([fetch.partition])
        await asyncio.sleep(0.01)
        fetch.partition.resign()
        fetch.delayed.notify(fetch.partition, True)

    assert delayed(scenario, min_bytes=1000, version=10).answered_ms == pytest.approx(10)


def test_news_of_the_high_watermark_waits_a_little_for_records() -> None:
    async def scenario(fetch: Waiting) -> None:
        await asyncio.sleep(0.1)
        fetch.delayed.notify(fetch.partition, False)

    assert delayed(scenario).answered_ms == pytest.approx(105)


def test_news_of_the_high_watermark_is_not_lost_when_records_do_not_suffice() -> None:
    async def scenario(fetch: Waiting) -> None:
        await asyncio.sleep(0.1)
        fetch.delayed.notify(fetch.partition, False)
        fetch.append(1)

    fetch = delayed(scenario, min_bytes=50)
    assert fetch.answered_ms == pytest.approx(105)


def test_a_closed_one_is_never_answered() -> None:
    async def scenario(fetch: Waiting) -> None:
        fetch.append(1)
        fetch.delayed.close()
        fetch.append(1)
        fetch.delayed.close()

    assert delayed(scenario).answered_ms is None


# Throttled replicas


def throttled_leader(*entries: str) -> Partition:
    partition = leader(end=10)
    partition.log.config = TopicConfig(leader_replication_throttled_replicas=entries)
    return partition


def test_a_throttled_replica_gets_nothing_while_the_rate_is_exceeded() -> None:
    partition, rate = throttled_leader("0:1"), ReplicationRate(11, 1000, lambda: 5)
    reads = reader(partition, throttled_rate=rate)
    lagging = item(0)
    first = reads.read(lagging, limits(replica_id=3), 1000, True, SessionlessWatch(0.0))
    assert len(first.records) == 10, "the rate was not exceeded before"
    second = reads.read(lagging, limits(replica_id=3), 1000, True, SessionlessWatch(0.0))
    assert (second.error_code, bytes(second.records), second.high_watermark) == (0, b"", 6)
    assert not lagging.is_drained, "it is looked at again by the next fetch"


def test_replicas_in_sync_and_consumers_are_not_throttled() -> None:
    partition, rate = throttled_leader("*"), ReplicationRate(11, 1000, lambda: 5)
    rate.add(1000, 0)
    reads = reader(partition, throttled_rate=rate)
    assert len(reads.read(item(2), limits(replica_id=2), 1000, True, SessionlessWatch(0.0)).records) == 8
    assert len(reads.read(item(2), limits(), 1000, True, SessionlessWatch(0.0)).records) == 4


def test_a_throttled_replica_that_the_high_watermark_waits_for_goes_on() -> None:
    """It had reached the end, and was held back while acks=all waited for it to join the ISR."""
    partition, rate = throttled_leader("*"), ReplicationRate(11, 1000, lambda: 5)
    reads = reader(partition, throttled_rate=rate)
    for offset in (0, 10):
        reads.read(item(offset), limits(replica_id=3), 1000, True, SessionlessWatch(0.0))
    partition.isr_refused(partition.pending_change)  # type: ignore[arg-type]
    partition.log.log_end_offset += 4  # type: ignore[misc]
    assert rate.is_exceeded(0)
    data = reads.read(item(10), limits(replica_id=3), 1000, True, SessionlessWatch(0.0))
    assert len(data.records) == 4


def test_partitions_whose_leader_is_not_named_are_not_throttled() -> None:
    partition, rate = throttled_leader("0:2", "1:1"), ReplicationRate(11, 1000, lambda: 5)
    rate.add(1000, 0)
    data = reader(partition, throttled_rate=rate).read(item(0), limits(replica_id=3), 1000, True, SessionlessWatch(0.0))
    assert len(data.records) == 10
