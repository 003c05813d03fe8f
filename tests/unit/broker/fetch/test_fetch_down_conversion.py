"""Fetches of versions that know less than what lies in logs: messages instead of batches, errors that they know."""

from __future__ import annotations

import asyncio
import itertools
import random
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.broker.fetch import fetch_down_conversion
from kafkalite.broker.fetch.down_conversion_cache import ConversionCache
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import in_one_go
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.down_conversion import conversion
from kafkalite.protocol.record_batches.records import BatchHeader, NewRecord, build_batch, build_marker
from kafkalite.storage.log.log_read import LogRead
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.broker.fake_log import FakeLog, assignment, make_partition
from tests.unit.broker.memory_parts import MemoryParts
from tests.unit.protocol.record_batches.test_down_conversion import entries, read

NAME = TopicPartition("t", 0)


@dataclass
class RecordsLog(FakeLog):
    """A log with real batches."""

    batches: list[bytes] = field(default_factory=list)
    problem: KafkaError | None = None

    def add(self, *records: NewRecord, codec: int = 0) -> None:
        self._add(build_batch(list(records), base_offset=self.log_end_offset, codec=codec), len(records))

    def add_marker(self) -> None:
        marker = build_marker(
            commit=True,
            producer_id=1,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=1,
            base_offset=self.high_watermark,
        )
        self._add(marker, 1)

    def _add(self, batch: bytearray, count: int) -> None:
        self.batches.append(bytes(batch))
        self.log_end_offset += count
        self.set_high_watermark(self.log_end_offset)

    def read(
        self, offset: int, max_bytes: int, *, upper_bound: int, min_one_batch: bool, to_send: bool = False
    ) -> LogRead:
        if self.problem is not None:
            raise self.problem
        first = bisect_right([int.from_bytes(each[:8], "big") for each in self.batches], offset) - 1
        data = b"".join(self.batches[first:])
        return LogRead(data[: max(max_bytes, len(self.batches[first]) if min_one_batch else 0)])


def parts_with(log: RecordsLog) -> MemoryParts:
    partition = make_partition(log, topic_partition=NAME)
    partition.become_leader(assignment(leader_epoch=4, isr=(1,)), 0.0)
    return MemoryParts(partition)


def request_of(offset: int = 0, max_bytes: int = 1 << 20, max_wait_ms: int = 0) -> messages.fetch_request.FetchRequest:
    m = messages.fetch_request
    asked = m.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return m.FetchRequest(
        replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=1, topics=[m.FetchTopic(topic="t", partitions=[asked])]
    )


async def ask(parts: MemoryParts, version: int, offset: int = 0, **limits: int) -> Any:
    """The one partition's answer."""
    response = await parts.ask(request_of(offset, **limits), version)
    ((data,),) = [topic.partitions for topic in response.responses]
    return data


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_each_version_gets_the_messages_that_it_knows(version: int, magic: int) -> None:
    log = RecordsLog()
    log.add(NewRecord(b"a", b"1", 7), NewRecord(None, b"2", 8))
    log.add(NewRecord(b"c", None, 9), codec=Codec.GZIP)
    data = virtual_time.run(ask(parts_with(log), version))
    assert (data.error_code, data.high_watermark) == (0, 3)
    assert [(offset, key, value) for offset, _, key, value in read(bytes(data.records), magic)] == [
        (0, b"a", b"1"),
        (1, None, b"2"),
        (2, b"c", None),
    ]


@pytest.mark.parametrize("version", [4, 9, 12])
def test_later_versions_get_what_lies_there(version: int) -> None:
    log = RecordsLog()
    log.add(NewRecord(b"a", b"1", 7))
    assert virtual_time.run(ask(parts_with(log), version)).records == log.batches[0]


def test_a_first_batch_larger_than_was_asked_for_is_rewritten_whole() -> None:
    log = RecordsLog()
    log.add(*[NewRecord(None, bytes(100), 1)] * 10)
    for version in range(4):
        data = virtual_time.run(ask(parts_with(log), version, max_bytes=10))
        assert len(entries(bytes(data.records))) == 10


def test_a_topic_may_refuse_to_be_rewritten() -> None:
    log = RecordsLog()
    log.config = replace(log.config, message_downconversion_enable=False)
    log.add(NewRecord(b"a", b"1", 7))
    for version in range(4):
        data = virtual_time.run(ask(parts_with(log), version))
        assert (data.error_code, data.high_watermark, data.records) == (ErrorCode.UNSUPPORTED_VERSION, -1, b"")
    assert virtual_time.run(ask(parts_with(log), 4)).records == log.batches[0]


def test_zstd_is_refused_before_version_10() -> None:
    log = RecordsLog()
    log.add(NewRecord(b"a", b"1", 7), codec=Codec.ZSTD)
    for version in range(4):
        data = virtual_time.run(ask(parts_with(log), version))
        assert (data.error_code, data.records) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, b"")
    assert virtual_time.run(ask(parts_with(log), 4)).records == log.batches[0]
    log.config = replace(log.config, compression_type="zstd")
    codes = [virtual_time.run(ask(parts_with(log), version)).error_code for version in (0, 4, 9, 10)]
    assert codes == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE] * 3 + [ErrorCode.NONE]


def test_a_failed_disk_is_told_as_another_leader_before_version_6() -> None:
    log = RecordsLog(problem=KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    log.add(NewRecord(b"a", b"1", 7))
    codes = [virtual_time.run(ask(parts_with(log), version)).error_code for version in (0, 3, 5, 6)]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3 + [ErrorCode.KAFKA_STORAGE_ERROR]


def test_behind_markers_a_fetch_waits_for_records() -> None:
    log = RecordsLog()
    log.add(NewRecord(b"a", b"1", 7))
    log.add_marker()
    log.add_marker()
    parts = parts_with(log)

    async def scenario() -> Any:
        fetching = asyncio.ensure_future(ask(parts, 2, 1, max_wait_ms=500))
        await asyncio.sleep(0.1)
        assert not fetching.done()
        log.add(NewRecord(b"b", b"2", 8))
        for watcher in list(parts.replicas.partitions[NAME].watchers):
            watcher.on_append(parts.replicas.partitions[NAME])
        found = await fetching
        assert asyncio.get_running_loop().time() == pytest.approx(0.1, abs=0.05)
        return found

    assert read(bytes(virtual_time.run(scenario()).records), 1) == [(3, 8, b"b", b"2")]


def test_behind_markers_a_fetch_ends_when_it_may_wait_no_longer() -> None:
    log = RecordsLog()
    log.add_marker()
    data = virtual_time.run(ask(parts_with(log), 3, 0, max_wait_ms=500))
    assert (data.error_code, data.records, data.high_watermark) == (0, b"", 1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_much_is_rewritten_in_another_thread_and_kept(codec: Codec) -> None:
    log = RecordsLog()
    for _ in range(3):
        log.add(*[NewRecord(None, bytes(1000), 1)] * 100, codec=codec)
    parts = parts_with(log)
    cache = parts.partition_reader.conversion_cache
    first = asyncio.run(ask(parts, 2))
    assert (cache.hits, cache.misses) == (0, 3)
    assert len(read(b"".join(entries(bytes(first.records))), 1)) >= 200  # a quick gzip makes more of such records
    assert asyncio.run(ask(parts, 2)).records == first.records
    assert cache.hits == 3


def test_what_is_kept_is_bounded() -> None:
    cache = ConversionCache(limit_bytes=10_000)
    kept = cache.of(NAME)
    header = BatchHeader.read(build_batch([NewRecord(None, b"x", 1)]))
    for number in range(20):
        kept.put(header._replace(base_offset=number), 1, bytes(1000))
    assert cache.size_bytes <= 10_000
    assert kept.get(header, 1) is None and kept.get(header._replace(base_offset=19), 1) == bytes(1000)
    assert kept.get(header._replace(base_offset=19, crc=7), 1) is None
    kept.put(header._replace(base_offset=99), 1, bytes(5000))
    assert kept.get(header._replace(base_offset=99), 1) is None


def test_very_many_partitions_are_looked_at_in_portions() -> None:
    log = RecordsLog()
    log.add(NewRecord(b"a", b"1", 7))
    parts = parts_with(log)
    request = request_of()
    asked = messages.fetch_request.FetchPartition
    request.topics[0].partitions += [
        asked(partition=number, fetch_offset=0, partition_max_bytes=100) for number in range(1, 3000)
    ]
    response = virtual_time.run(parts.ask(request, 3))
    answers = [data for each in response.responses for data in each.partitions]
    assert len(answers) == 3000
    assert read(bytes(answers[0].records), 1)[0][2:] == (b"a", b"1")
    assert {data.error_code for data in answers[1:]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_topic_stored_in_the_old_format_is_sent_as_it_lies_there() -> None:
    """Kafka takes message.format.version for what lies there, so even what is cut stays, and nothing is refused."""
    log = RecordsLog()
    log.add(NewRecord(b"a", b"1", 7))
    older = in_one_go(conversion(log.batches[0], 1, 0))[:40]
    log.batches[0] = older + older[:20]
    log.config = replace(
        log.config, message_format_version="0.10.2", message_format_acts=True, message_downconversion_enable=False
    )
    data = virtual_time.run(ask(parts_with(log), 2))
    assert (data.error_code, data.records) == (0, log.batches[0])
    assert virtual_time.run(ask(parts_with(log), 1)).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_only_consumer_of_compressed_records_waits_for_few_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock finds it 1.5 ms later."""
    now_s, pauses = itertools.count(0.0, 1.5e-3), [0]

    def sleep(_: float) -> None:
        pauses[-1] += 1

    monkeypatch.setattr(fetch_down_conversion.time, "perf_counter", lambda: next(now_s))
    monkeypatch.setattr(fetch_down_conversion.time, "sleep", sleep)
    values = random.Random(1)
    records = [NewRecord(None, values.randbytes(500) + bytes(500), 1) for _ in range(40)]
    for each, is_alone in ((Codec.NONE, True), (Codec.LZ4, True), (Codec.LZ4, False)):
        batches = b"".join(build_batch(records, base_offset=40 * number, codec=each) for number in range(40))
        item: Any = SimpleNamespace(topic_partition=NAME, fetch_offset=0)
        data = messages.fetch_response.PartitionData(records=batches)
        pauses.append(0)
        fetch_down_conversion._run_all(
            [fetch_down_conversion._Conversion(item, data, batches, 1)], ConversionCache(0), partial(bool, is_alone)
        )
        assert data.records != batches and not data.error_code
    _, plain, alone, crowd = pauses
    assert plain > 2 * alone > 2
    assert crowd > 2 * alone
