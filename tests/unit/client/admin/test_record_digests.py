"""Digests of ranges asked of brokers, or made of fetched records: the same result, and never a silent gap."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafkalite.broker.replication.partition import Partition
from kafkalite.client import Admin, AdminError, DigestedRange
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.record_digest import RangeDigest
from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.broker.fake_log import assignment, make_partition
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.served_partitions import ServedPartitions
from tests.unit.storage.cleaner_settings import compact
from tests.unit.storage.logs import NAME, NOW_MS, append, new_log
from tests.unit.storage.old_logs import CODECS, FORMATS, unpack
from tests.unit.storage.random_transactions import Writer, expected

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OF_OURS = (ApiKey.DIGEST_RECORDS,)
"""Unknown to brokers of Apache Kafka."""


def ask(cluster: Any, call: Callable[[Admin], Awaitable[Any]], timeout_ms: int = 2000) -> Any:
    async def in_time() -> Any:
        options = {"retry_backoff_ms": 2, "retry_backoff_max_ms": 10, "default_api_timeout_ms": timeout_ms}
        async with asyncio.timeout(30), Admin(bootstrap_servers="host1:9092", opener=cluster.open, **options) as admin:  # type: ignore[arg-type]
            return await call(admin)

    return virtual_time.run(in_time())


def led(log: PartitionLog, place: TopicPartition = NAME) -> Partition:
    partition = make_partition(log, topic_partition=place)  # type: ignore[arg-type]
    partition.become_leader(assignment(leader_epoch=4, isr=(1,)), 0.0)
    return partition


def both_ways(partition: Partition, start: int = 0, end: int | None = None) -> DigestedRange:
    """The digest of a range from the broker, which is that of the records as well."""
    place = partition.topic_partition
    span = start, partition.log.last_stable_offset if end is None else end
    by_broker, by_reading = ServedPartitions(partition), ServedPartitions(partition, unknown=OF_OURS)
    (one,) = ask(by_broker, lambda admin: admin.digest_records({place: span}))
    (other,) = ask(by_reading, lambda admin: admin.digest_records({place: span}))
    assert one == other
    assert ApiKey.FETCH not in by_broker.asked and ApiKey.DIGEST_RECORDS not in by_reading.asked
    return one  # type: ignore[no-any-return]


def as_range(log: PartitionLog, place: TopicPartition, start: int, end: int) -> DigestedRange:
    digest: RangeDigest = expected(log, start, end)
    count, *places, content_bytes, fingerprint = digest
    shown: list[Any] = places if count else [None] * 4
    return DigestedRange(place, start, end, count, *shown, content_bytes, f"{fingerprint:032x}")


@pytest.mark.parametrize("seed", range(3))
def test_brokers_and_readers_find_the_same(tmp_path: Path, seed: int) -> None:
    """Transactions committed, aborted and open, all codecs, any range."""
    log, random = new_log(tmp_path, TopicConfig(segment_bytes=4000)), Random(seed)
    writer = Writer(log, random)
    writer.write(60)
    partition, stable = led(log), log.last_stable_offset
    for start, end in ((0, stable), (0, 0), *(sorted(random.choices(range(stable), k=2)) for _ in range(3))):
        assert both_ways(partition, start, end) == as_range(log, NAME, start, end)
    writer.end_all(commit=False)
    assert both_ways(partition) == as_range(log, NAME, 0, log.log_end_offset)


def test_both_find_the_same_records_of_a_span_of_time(tmp_path: Path) -> None:
    log = new_log(tmp_path, TopicConfig())
    writer = Writer(log, Random(9))
    writer.write(50)
    writer.end_all()
    span, (since, until) = (3, log.last_stable_offset), (NOW_MS + 200, NOW_MS + 700)
    for unknown in ((), OF_OURS):
        cluster = ServedPartitions(led(log), unknown=unknown)
        (found,) = ask(cluster, lambda admin: admin.digest_records({NAME: span}, since_ms=since, until_ms=until))
        digest = expected(log, *span, since, until)
        assert 0 < digest.records < expected(log).records
        assert (found.records, found.fingerprint) == (digest.records, f"{digest.fingerprint:032x}")


def test_of_a_compacted_topic_the_records_that_are_left(tmp_path: Path) -> None:
    log = new_log(tmp_path, TopicConfig(cleanup_policy=("compact",), segment_bytes=2000))
    for number in range(60):
        append(log, build_batch([NewRecord(b"k%d" % (number % 7), b"%d" % number * 9, NOW_MS)] * 2, codec=number % 5))
    log.set_high_watermark(log.log_end_offset)
    compact(log)
    digest = both_ways(led(log))
    assert digest == as_range(log, NAME, 0, 120) and digest.records < 60


@pytest.mark.parametrize(("release", "topic"), [(release, codec) for release in FORMATS for codec in CODECS])
def test_of_messages_of_older_formats(tmp_path: Path, release: str, topic: str) -> None:
    from tests.unit.storage.log.test_old_formats import opened

    partition = led(opened(unpack(release, tmp_path), topic), TopicPartition(topic, 0))
    digest = both_ways(partition)
    assert digest.records == partition.log.log_end_offset
    assert both_ways(partition, 3, 11).records == 8


def test_partitions_are_asked_of_their_leaders_together(tmp_path: Path) -> None:
    logs = [new_log(tmp_path / str(number), TopicConfig()) for number in range(3)]
    for number, log in enumerate(logs):
        append(log, build_batch([NewRecord(b"k", b"%d" % number, NOW_MS)] * (number + 1)))
        log.set_high_watermark(log.log_end_offset)
    places = [TopicPartition("t", number) for number in range(3)]
    cluster = ServedPartitions(*map(led, logs, places))
    ranges = {place: (0, log.log_end_offset) for place, log in zip(places, logs, strict=True)}
    found = ask(cluster, lambda admin: admin.digest_records(ranges))
    assert found == [as_range(log, place, *ranges[place]) for place, log in zip(places, logs, strict=True)]
    assert found[1].to_dict()["fingerprint"] == found[1].fingerprint and found[1].to_dict()["partition"] == 1


@pytest.mark.parametrize("unknown", [(), OF_OURS], ids=["by the broker", "by reading"])
def test_parts_of_a_range_are_digested_in_one_pass(tmp_path: Path, unknown: tuple[ApiKey, ...]) -> None:
    """Whatever batches they cut."""
    log = new_log(tmp_path, TopicConfig())
    for number in range(9):
        append(log, build_batch([NewRecord(b"k", b"%d" % number, NOW_MS)] * (number + 1)))
    log.set_high_watermark(log.log_end_offset)
    cluster = ServedPartitions(led(log), unknown=unknown)
    found = ask(cluster, lambda admin: admin.digest_records({NAME: (3, 44)}, part_offsets=10))
    spans = [(3, 10), (10, 20), (20, 30), (30, 40), (40, 44)]
    assert found == [as_range(log, NAME, *span) for span in spans]
    if unknown:
        assert cluster.asked.count(ApiKey.FETCH) == 1
    (whole,) = ask(cluster, lambda admin: admin.digest_records({NAME: (3, 44)}, part_offsets=100))
    assert whole.records == sum(each.records for each in found) == 41
    (nothing,) = ask(cluster, lambda admin: admin.digest_records({NAME: (10, 10)}, part_offsets=10))
    assert (nothing.start, nothing.end, nothing.records) == (10, 10, 0)
    with pytest.raises(ValueError, match="part_offsets is 0"):
        ask(cluster, lambda admin: admin.digest_records({NAME: (3, 44)}, part_offsets=0))


def make_answer(next_offset: int, records: int = 1, **fields: Any) -> messages.DigestRecordsResponse:
    places = {"first_offset": next_offset - 1, "last_offset": next_offset - 1}
    given = {**places, "least_timestamp": 7, "largest_timestamp": 8, "fingerprint": b"\xff" * 16, **fields}
    return messages.DigestRecordsResponse(next_offset=next_offset, records=records, content_bytes=records, **given)


def test_what_does_not_fit_into_an_answer_is_asked_for_again() -> None:
    cluster = FakeCluster({"t": 1}, brokers=1)
    cluster.script[ApiKey.DIGEST_RECORDS].extend([make_answer(4), make_answer(4, 0), make_answer(9)])
    (digest,) = ask_fake(cluster, {T0: (2, 9)}, fresh=True)
    asked = cluster.requests_of(ApiKey.DIGEST_RECORDS)
    assert [(each.start_offset, each.end_offset, each.is_fresh) for each in asked] == [
        (2, 9, True),
        (4, 9, True),
        (4, 9, True),
    ]
    fingerprint = f"{(2 << 128) - 2 & (1 << 128) - 1:032x}"
    assert digest == DigestedRange(T0, 2, 9, 2, 3, 8, 7, 8, 2, fingerprint)


def ask_fake(cluster: FakeCluster, ranges: Any, *, fresh: bool = False, timeout_ms: int = 2000) -> Any:
    async def open_first(host: str, port: int) -> Any:
        return await cluster.open("fake", 9001)

    class Opened:
        open = staticmethod(open_first)

    return ask(Opened, lambda admin: admin.digest_records(ranges, fresh=fresh), timeout_ms)


def test_a_leader_that_moved_is_asked_where_it_is() -> None:
    cluster = FakeCluster({"t": 1}, brokers=1)
    refused = messages.DigestRecordsResponse(error_code=ErrorCode.FENCED_LEADER_EPOCH)
    cluster.epochs[T0] = 7
    cluster.script[ApiKey.DIGEST_RECORDS].extend([refused, make_answer(9)])
    assert ask_fake(cluster, {T0: (0, 9)})[0].records == 1
    assert [each.current_leader_epoch for each in cluster.requests_of(ApiKey.DIGEST_RECORDS)] == [7, 7]


@pytest.mark.parametrize(
    "answer",
    [make_answer(10), make_answer(-1), make_answer(1), make_answer(9, fingerprint=b"short")],
    ids=["behind", "unknown", "before", "no fingerprint"],
)
def test_an_answer_that_cannot_be_right_is_refused(answer: Any) -> None:
    cluster = FakeCluster({"t": 1}, brokers=1)
    cluster.script[ApiKey.DIGEST_RECORDS].append(answer)
    with pytest.raises(AdminError) as caught:
        ask_fake(cluster, {T0: (2, 9)})
    assert caught.value.failures["t-0"].code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_what_is_not_committed_in_time_is_an_error() -> None:
    cluster = FakeCluster({"t": 1}, brokers=1)
    cluster.script[ApiKey.DIGEST_RECORDS].extend([make_answer(4, last_stable_offset=4)] * 1000)
    with pytest.raises(AdminError, match="only what is before 4 is committed"):
        ask_fake(cluster, {T0: (2, 9)}, timeout_ms=300)


def test_what_the_log_has_not_any_more_and_what_is_damaged_is_an_error(tmp_path: Path) -> None:
    log = new_log(tmp_path, TopicConfig())
    for _ in range(4):
        append(log, build_batch([NewRecord(b"k", b"v", NOW_MS)] * 3))
    log.set_high_watermark(log.log_end_offset)
    log.delete_records(2)
    partition = led(log)
    segment = log.segments[0]
    segment.disk.open(segment.path).write_at(segment.size - 3, [b"x"])
    for unknown in ((), OF_OURS):
        for span, code in (((0, 6), ErrorCode.OFFSET_OUT_OF_RANGE), ((2, 12), ErrorCode.CORRUPT_MESSAGE)):
            cluster = ServedPartitions(partition, unknown=unknown)
            with pytest.raises(AdminError) as caught:
                ask(cluster, lambda admin, span=span: admin.digest_records({NAME: span}))
            assert caught.value.failures[str(NAME)].code is code


def test_no_range_and_no_topic() -> None:
    cluster = FakeCluster({"t": 1}, brokers=1)
    with pytest.raises(ValueError, match=r"^t-0: 9 to 2 is no range of offsets$"):
        ask_fake(cluster, {T0: (9, 2)})
    with pytest.raises(AdminError) as caught:
        ask_fake(cluster, {T1: (0, 1)}, timeout_ms=100)
    assert set(caught.value.failures) == {"t-1"}
