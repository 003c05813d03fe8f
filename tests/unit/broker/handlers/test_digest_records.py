"""DigestRecords: digests of ranges as the leader answers them, who may ask, and what a request costs the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafkalite.broker.fetch import range_digests
from kafkalite.broker.fetch.range_digests import RangeDigests
from kafkalite.broker.replication.partition import Partition
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode
from kafkalite.portions import Portions
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches import record_digest, records
from kafkalite.protocol.record_batches.record_digest import NO_RECORDS, RangeDigest
from kafkalite.protocol.record_batches.records import BatchHeader, NewRecord, build_batch, iter_batches
from kafkalite.security.acl import Operation, ResourceType
from kafkalite.storage.log import range_scan
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.open_files import NotInMemory
from kafkalite.storage.segments import segment_digests
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.fake_log import assignment, make_partition
from tests.unit.broker.handlers.test_authorization import OPEN, Judge
from tests.unit.broker.loop_turns import measured_turns
from tests.unit.broker.memory_parts import MemoryParts
from tests.unit.storage.logs import NAME, NOW_MS, append, new_log, reopened
from tests.unit.storage.random_transactions import Writer, expected

EPOCH = 4
END = 1 << 40


def play(scenario: Callable[[], Awaitable[Any]]) -> Any:
    return virtual_time.run(scenario())  # type: ignore[arg-type]


def led(log: PartitionLog) -> Partition:
    partition = make_partition(log, topic_partition=NAME)  # type: ignore[arg-type]
    high_watermark = log.high_watermark
    partition.become_leader(assignment(leader_epoch=EPOCH, isr=(1,)), 0.0)
    assert log.high_watermark >= high_watermark
    return partition


def filled(path: Path, batches: int = 60, **config: Any) -> PartitionLog:
    log = new_log(path, TopicConfig(**{"segment_bytes": 4000, "index_interval_bytes": 200, **config}))
    writer = Writer(log, Random(5))
    writer.write(batches)
    writer.end_all()
    return log


def asking(start: int = 0, end: int = END, **fields: Any) -> messages.DigestRecordsRequest:
    return messages.DigestRecordsRequest(
        **{"topic": NAME.topic, "partition_index": NAME.partition, "start_offset": start, "end_offset": end}
        | {"since_timestamp": -(1 << 63), "until_timestamp": (1 << 63) - 1, **fields}
    )


def digest_in(response: Any) -> RangeDigest:
    assert not response.error_code, response.error_message
    fingerprint = int.from_bytes(response.fingerprint, "big")
    places = response.records, response.first_offset, response.last_offset
    times = response.least_timestamp, response.largest_timestamp
    return RangeDigest(*places, *times, response.content_bytes, fingerprint)


def outcome(partition: Partition, request: Any, parts: MemoryParts | None = None) -> tuple[int, str | None]:
    response = play(lambda: (parts or MemoryParts(partition)).ask(request, 0))
    assert response.next_offset == -1
    return response.error_code, response.error_message


def test_the_bytes_of_both() -> None:
    whole = bytes.fromhex(
        "0274 00000003 00000004 0000000000000007 0000000000000009 000000000000000a 000000000000000b 01 00"
    )
    request = messages.DigestRecordsRequest(
        topic="t",
        partition_index=3,
        current_leader_epoch=4,
        start_offset=7,
        end_offset=9,
        since_timestamp=10,
        until_timestamp=11,
        is_fresh=True,
    )
    assert b"".join(codec.encode_request(request, 0)) == whole
    response = messages.DigestRecordsResponse(
        log_start_offset=1,
        last_stable_offset=9,
        next_offset=8,
        records=2,
        first_offset=5,
        last_offset=6,
        least_timestamp=12,
        largest_timestamp=13,
        content_bytes=3,
        fingerprint=b"\xff",
    )
    numbers = "".join(f"{each:016x}" for each in (1, 9, 8, 2, 5, 6, 12, 13, 3))
    told = bytes.fromhex("00000000 0000 00" + numbers + "02ff 00")
    assert b"".join(codec.encode_response(response, 0)) == told
    assert codec.decode_response(ApiKey.DIGEST_RECORDS, 0, told) == response


@pytest.mark.parametrize("bytes_at_once", [1, 2000, range_digests.BYTES_AT_ONCE])
def test_a_range_is_digested_in_as_many_requests_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_at_once: int
) -> None:
    for module in (range_scan, segment_digests):
        monkeypatch.setattr(module, "BLOCK_BYTES", 500)
    log = filled(tmp_path)
    parts = MemoryParts(led(log))
    parts.range_digests = RangeDigests(bytes_at_once)

    async def scenario() -> list[int]:
        needed = []
        for fresh in (False, False, True):
            offset, total, count = 0, NO_RECORDS, 0
            while offset < log.last_stable_offset:
                response = await parts.ask(asking(offset, is_fresh=fresh), 0)
                assert response.next_offset > offset
                assert (response.log_start_offset, response.last_stable_offset) == (0, log.last_stable_offset)
                offset, total, count = response.next_offset, total + digest_in(response), count + 1
            assert total == expected(log)
            needed.append(count)
        return needed

    first, again, fresh = play(scenario)
    assert again <= first == fresh
    assert (first == 1) == (bytes_at_once > 100_000) and (bytes_at_once > 1 or first > 10)


@pytest.mark.parametrize("seed", range(4))
def test_records_of_a_span_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Blocks that lie within or outside of it need not be read again."""
    for module in (range_scan, segment_digests):
        monkeypatch.setattr(module, "BLOCK_BYTES", 500)
    log, random = filled(tmp_path), Random(seed)
    parts = MemoryParts(led(log))

    async def scenario() -> None:
        for _ in range(6):
            since, until = sorted(random.choices(range(NOW_MS - 10, NOW_MS + 1010), k=2))
            start, end = sorted(random.choices(range(log.last_stable_offset), k=2))
            request = asking(start, end, since_timestamp=since, until_timestamp=until)
            assert digest_in(await parts.ask(request, 0)) == expected(log, start, end, since, until)
            assert digest_in(await parts.ask(asking(), 0)) == expected(log), "what is kept is that of all records"
        before = asking(since_timestamp=0, until_timestamp=NOW_MS)
        assert digest_in(await parts.ask(before, 0)) == NO_RECORDS

    play(scenario)


def test_at_the_last_stable_offset_nothing_is_next(tmp_path: Path) -> None:
    log = filled(tmp_path)
    stable = log.last_stable_offset
    append(log, build_batch([NewRecord(b"k", b"v", NOW_MS)] * 3))
    assert log.log_end_offset == stable + 3
    partition = make_partition(log, topic_partition=NAME)  # type: ignore[arg-type]
    partition.become_leader(assignment(leader_epoch=EPOCH, isr=(1, 2)), 0.0)

    async def scenario() -> None:
        parts = MemoryParts(partition)
        for start in (stable, stable + 2, stable + 3):
            response = await parts.ask(asking(start), 0)
            assert (response.next_offset, digest_in(response)) == (start, NO_RECORDS)
        response = await parts.ask(asking(5, 9), 0)
        assert (response.next_offset, digest_in(response)) == (9, expected(log, 5, 9))

    play(scenario)


def test_what_cannot_be_answered(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.delete_records(10)
    partition, end = led(log), log.log_end_offset
    for start in (9, end + 1):
        message = f"{NAME} has offsets 10 to {end}, not {start}"
        assert outcome(partition, asking(start)) == (ErrorCode.OFFSET_OUT_OF_RANGE, message)
    assert outcome(partition, asking(20, 19))[0] == ErrorCode.INVALID_REQUEST
    assert outcome(partition, asking(20, topic="other"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcome(partition, asking(20, current_leader_epoch=EPOCH - 1))[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert outcome(partition, asking(20, current_leader_epoch=EPOCH + 1))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert digest_in(play(lambda: MemoryParts(partition).ask(asking(20, current_leader_epoch=EPOCH), 0))).records
    partition.resign()
    assert outcome(partition, asking(20))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_it_needs_read_on_the_topic(tmp_path: Path) -> None:
    log = filled(tmp_path)
    partition = make_partition(log, topic_partition=NAME._replace(topic=OPEN))  # type: ignore[arg-type]
    partition.become_leader(assignment(leader_epoch=EPOCH, isr=(1,)), 0.0)

    async def scenario() -> None:
        parts = MemoryParts(partition)
        readers = Judge([(ResourceType.TOPIC, Operation.READ)])
        assert digest_in(await parts.ask(asking(topic=OPEN), 0, readers)) == expected(log)
        describers = Judge([(ResourceType.TOPIC, Operation.DESCRIBE), (ResourceType.CLUSTER, Operation.CLUSTER_ACTION)])
        for topic in (OPEN, "m-unknown"):
            refused = await parts.ask(asking(topic=topic), 0, describers)
            assert (refused.error_code, refused.records) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)

    play(scenario)


def test_damaged_records_are_named(tmp_path: Path) -> None:
    log = filled(tmp_path)
    segment = log.segments[1]
    header = next(each for each in iter_batches(segment.read(0, segment.size)) if not each.is_transactional)
    file = segment.disk.open(segment.path)
    (byte,) = file.read_at(header.end - 1, 1)
    file.write_at(header.end - 1, [bytes([byte ^ 1])])
    code, message = outcome(led(log), asking())
    assert (code, message) == (ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} has a wrong CRC")


def test_who_leads_no_more_answers_nothing(tmp_path: Path) -> None:
    """Between two pieces of a range; of another leader epoch, too."""
    for change in (
        lambda partition: partition.resign(),
        lambda partition: partition.become_leader(assignment(leader_epoch=EPOCH + 1, isr=(1,)), 0.0),
    ):
        partition = led(filled(tmp_path / str(change.__code__.co_firstlineno)))

        async def scenario(partition: Partition = partition, change: Any = change) -> None:
            parts = MemoryParts(partition)
            turns = 0

            def find_partition() -> Partition:
                nonlocal turns
                turns += 1
                if turns == 3:
                    change(partition)
                partition.require_leader()
                return partition

            with pytest.raises(Exception, match=r"does not lead|epoch"):
                await parts.range_digests.digest(find_partition, 0, END, Portions(), fresh=False)
            assert turns == 3

        play(scenario)


def test_a_long_range_leaves_the_loop_to_others(tmp_path: Path) -> None:
    """And requests that come together are served one after the other."""
    log = new_log(tmp_path, TopicConfig())
    for _ in range(100):
        append(log, build_batch([NewRecord(b"k", b"v" * 20, NOW_MS)] * 1000, codec=4))
    partition = led(log)

    async def scenario() -> None:
        parts = MemoryParts(partition)
        await parts.ask(asking(0, 1), 0)
        with measured_turns() as turns:
            responses = await asyncio.gather(*(parts.ask(asking(is_fresh=True), 0) for _ in range(3)))
        assert [digest_in(each).records for each in responses] == [100_000] * 3
        assert turns.count > 10 and turns.longest < turns.calls / 6

    asyncio.run(scenario())


def test_pieces_that_take_little_leave_the_loop_to_others_too(tmp_path: Path) -> None:
    """Each was short enough to be digested at once, and so were all 8 MiB of a request."""
    log = new_log(tmp_path, TopicConfig())
    for _ in range(100):
        append(log, build_batch([NewRecord(b"k", b"v" * 1000, NOW_MS)] * 100))
    log.set_high_watermark(log.log_end_offset)
    partition, portions = led(log), Portions()

    async def scenario() -> None:
        digest, _ = await RangeDigests(1 << 24).digest(lambda: partition, 0, END, portions)
        assert (digest.records, digest.content_bytes) == (10_000, 10_010_000)

    play(scenario)
    assert portions.turns >= 2


def test_a_large_batch_is_digested_in_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (range_digests, record_digest):
        monkeypatch.setattr(module, "AT_ONCE_BYTES", 4000)
    log = new_log(tmp_path, TopicConfig())
    for size, codec_id in ((10, 0), (900, 0), (900, 4), (10, 4)):
        append(log, build_batch([NewRecord(b"k", b"v" * size, NOW_MS)] * 10, codec=codec_id))
    log.set_high_watermark(log.log_end_offset)
    in_threads: list[Any] = []
    original = Portions.in_thread

    async def in_thread(self: Portions, function: Callable[[], Any]) -> Any:
        in_threads.append(function)
        return await original(self, function)

    monkeypatch.setattr(Portions, "in_thread", in_thread)

    async def scenario() -> None:
        assert digest_in(await MemoryParts(led(log)).ask(asking(), 0)) == expected(log)

    asyncio.run(scenario())
    large = [each.args[1].base_offset for each in in_threads if hasattr(each, "args")]
    assert large == [10, 20]


@pytest.mark.parametrize(("name", "codec_id"), [("ü", 0), ("u", 4)])
def test_each_batch_is_looked_at_once_also_where_each_is_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, codec_id: int
) -> None:
    """Behind each batch that compiled code left to Python, all that follow were looked at again."""
    log = new_log(tmp_path, TopicConfig())
    for _ in range(300):
        append(log, build_batch([NewRecord(b"k", b"v", NOW_MS, [(name, b"")])], codec=codec_id))
    log.set_high_watermark(log.log_end_offset)
    looks: list[int] = []
    checked: list[int] = []
    is_small, digest_at_once, crc32c = range_digests.is_small, range_digests.digest_at_once, record_digest.crc32c

    def note_batch(data: Any, position: int, *rest: Any) -> Any:
        looks.append(BatchHeader.read(data, position).base_offset)
        return digest_at_once(data, position, *rest)

    monkeypatch.setattr(range_digests, "is_small", lambda header: looks.append(header.base_offset) or is_small(header))
    monkeypatch.setattr(range_digests, "digest_at_once", note_batch)
    for module in (records, record_digest):
        monkeypatch.setattr(module, "crc32c", lambda data: checked.append(len(data)) or crc32c(data))

    async def scenario() -> None:
        request = asking(0, log.log_end_offset)
        assert digest_in(await MemoryParts(led(log)).ask(request, 0)) == expected(log, 0, log.log_end_offset)

    asyncio.run(scenario())
    assert looks == list(range(300)) and len(checked) == 300


def test_small_batches_are_digested_together_up_to_one_that_is_read_alone(tmp_path: Path) -> None:
    """Compressed, or with a name of a header that only Python reads; and records on both sides of a bound of time."""
    log = new_log(tmp_path, TopicConfig())
    for number in range(40):
        name, codec_id = ("ü" if number % 7 == 3 else "u"), (4 if number % 11 == 5 else 0)
        new = [NewRecord(b"k%d" % each, b"v", NOW_MS + each * number, [(name, b"")]) for each in range(1 + number % 3)]
        append(log, build_batch(new, codec=codec_id))
    log.set_high_watermark(log.log_end_offset)
    end = log.log_end_offset

    async def scenario() -> None:
        parts = MemoryParts(led(log))
        for start, stop, since in ((0, end, 0), (0, end, NOW_MS + 1), (2, end - 2, NOW_MS + 20), (31, 60, 0)):
            request = asking(start, stop, since_timestamp=since)
            assert digest_in(await parts.ask(request, 0)) == expected(log, start, stop, since)

    asyncio.run(scenario())


def test_what_is_not_in_memory_is_brought_there_by_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records, and the files of kept digests, with indexes on the way; and nothing is added twice for it."""
    log = filled(tmp_path)
    loaded: list[str] = []
    reads_left, granted = 0, 6

    def read_in_memory(file: Any, position: int, size: int) -> bytes | None:
        nonlocal reads_left
        reads_left -= 1
        return file.read_at(position, size) if reads_left >= 0 else None  # type: ignore[no-any-return]

    def load(cold: NotInMemory) -> None:
        nonlocal reads_left
        loaded.append(Path(cold.args[0]).suffix)
        reads_left = granted

    monkeypatch.setattr("kafkalite.storage.disk._OsFile.read_in_memory", read_in_memory)
    monkeypatch.setattr(NotInMemory, "load", load)
    partition = led(log)
    assert digest_in(play(lambda: MemoryParts(partition).ask(asking(), 0))) == expected(log)
    assert len(loaded) > 3 and ".log" in loaded
    again = led(reopened(log, clean=True))
    loaded.clear()
    for each in (2, 3, 4, 5):
        reads_left, granted = 0, each
        assert digest_in(play(lambda: MemoryParts(again).ask(asking(), 0))) == expected(log)
        for segment in again.log.segments:  # type: ignore[attr-defined]
            segment.digests = None
    assert ".digests" in loaded


def test_nothing_is_read_for_a_client_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path)
    partition = led(log)
    parts = MemoryParts(partition)
    monkeypatch.setattr("tests.unit.broker.memory_parts.FakeConnection.__init__", _make_closed)
    assert outcome(partition, asking(), parts)[0] == ErrorCode.NETWORK_EXCEPTION


def _make_closed(self: Any) -> None:
    from tests.unit.broker.memory_parts import ANONYMOUS, FakeBound

    self.listener, self.peer_host, self.closed = "PLAINTEXT", "host", True
    self.principal, self.wants_template, self.unread = ANONYMOUS, False, FakeBound()
