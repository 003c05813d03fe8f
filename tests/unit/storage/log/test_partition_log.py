"""One log from its callers' side: what is stored, what is refused, when it rolls, and what a full or broken disk does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.records import (
    TRANSACTIONAL,
    BatchHeader,
    NewRecord,
    build_batch,
    build_marker,
    decode_records,
    has_valid_crc,
    iter_batches,
    set_max_timestamp_in_place,
)
from kafkalite.storage.log.append_checks import AppendOrigin
from kafkalite.storage.log.timestamp_search import find_offset_for_timestamp, find_offset_of_max_timestamp
from tests.unit.storage.logs import (
    NOW_MS,
    all_bytes,
    append,
    batch,
    check_files,
    headers_of,
    new_log,
    produced,
    reopened,
)


def refusal(action, *arguments, **named):
    with pytest.raises(KafkaError) as refused:
        action(*arguments, **named)
    return refused.value.code


def marker(*, commit=True, producer_id=7, epoch=0, coordinator_epoch=0):
    return build_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=NOW_MS,
    )


def end_transaction(log, **fields):
    return append(log, marker(**fields), origin=AppendOrigin.COORDINATOR)


# What is stored


def test_offsets_and_epoch_are_set_in_the_callers_buffer(tmp_path):
    log = new_log(tmp_path)
    append(log, batch(3))
    records = batch(2)
    result = append(log, memoryview(records), epoch=4)
    assert result == (3, 4, -1, 0, False)
    header = BatchHeader.read(records)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 4)
    assert all_bytes(log).endswith(records) and log.latest_epoch == 4


def test_a_leader_notes_its_epoch_before_it_writes(tmp_path):
    log = new_log(tmp_path)
    append(log, batch(3), epoch=1)
    log.assign_epoch(2)
    assert log.end_offset_for_epoch(1) == (1, 3) and log.end_offset_for_epoch(2) == (2, 3)
    append(log, epoch=2)
    assert log.end_offset_for_epoch(2) == (2, 4)


def test_append_time(tmp_path):
    log = new_log(tmp_path, TopicConfig(message_timestamp_type="LogAppendTime"))
    for codec in Codec:
        assert append(log, batch(2, codec=codec), now_ms=NOW_MS + codec).log_append_time_ms == NOW_MS + codec
    data = all_bytes(log)
    for header in iter_batches(data):
        assert header.uses_log_append_time and has_valid_crc(data, header)
        assert {each.timestamp for each in decode_records(data, header)} == {NOW_MS + header.codec}
    assert find_offset_for_timestamp(log, NOW_MS + 2, 100) == (NOW_MS + 2, 4, 0)


def test_a_duplicate_on_a_topic_with_append_time_tells_the_first_append_time(tmp_path):
    log = new_log(tmp_path, TopicConfig(message_timestamp_type="LogAppendTime"))
    append(log, produced(7, 0), now_ms=NOW_MS)
    again = append(log, produced(7, 0), now_ms=NOW_MS + 50)
    assert again == (0, 0, NOW_MS, 0, True)


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", Codec)
def test_the_topics_codec_is_used(tmp_path, wanted, sent):
    log = new_log(tmp_path, TopicConfig(compression_type=wanted))
    records = build_batch([NewRecord(b"k", b"v" * 50, NOW_MS + n, [("h", b"x")]) for n in range(20)], codec=sent)
    expected = decode_records(records, BatchHeader.read(records))
    append(log, records)
    data = all_bytes(log)
    (header,) = iter_batches(data)
    assert header.codec == (Codec.NONE if wanted == "uncompressed" else Codec[wanted.upper()])
    assert decode_records(data, header) == expected and has_valid_crc(data, header)


def test_a_batch_that_the_topics_codec_makes_too_large(tmp_path):
    """Kafka's RecordTooLargeException, also for what recompression makes of a batch."""
    log = new_log(tmp_path, TopicConfig(compression_type="uncompressed", max_message_bytes=10_000))
    with pytest.raises(KafkaError) as refused:
        append(log, build_batch([NewRecord(b"k", bytes(10_000), NOW_MS)], codec=Codec.GZIP))
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    append(log, build_batch([NewRecord(b"k", bytes(9_900), NOW_MS)], codec=Codec.GZIP))
    assert log.log_end_offset == 1


def test_a_wrong_largest_timestamp_is_made_right(tmp_path):
    """Otherwise a producer could keep its segment for ever, or hide it from searches by time."""
    log = new_log(tmp_path)
    records = batch(3)
    set_max_timestamp_in_place(records, BatchHeader.read(records), NOW_MS * 2, log_append_time=False)
    append(log, records)
    (header,) = headers_of(log)
    assert header.max_timestamp == NOW_MS + 2 and has_valid_crc(all_bytes(log), header)


def test_old_clients_messages_become_a_batch(tmp_path):
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=1, batch_size=1 << 20)
    for number in range(3):
        builder.append(number, timestamp=NOW_MS, key=None, value=b"%d" % number)
    messages = bytes(builder.build())
    log = new_log(tmp_path)
    assert append(log, bytearray(messages), request_version=2).last_offset == 2
    assert refusal(append, log, bytearray(messages), request_version=3) == ErrorCode.INVALID_RECORD
    assert [each.value for each in decode_records(all_bytes(log), headers_of(log)[0])] == [b"0", b"1", b"2"]


def test_the_brokers_own_batches_may_be_several(tmp_path):
    log = new_log(tmp_path)
    result = append(log, batch(2) + marker() + batch(3), origin=AppendOrigin.COORDINATOR)
    assert (result.first_offset, result.last_offset) == (0, 5)
    assert [each.base_offset for each in headers_of(log)] == [0, 2, 3]
    assert refusal(append, log, batch(2)[:-1], origin=AppendOrigin.COORDINATOR) == ErrorCode.INVALID_RECORD
    assert refusal(append, log, bytearray(), origin=AppendOrigin.COORDINATOR) == ErrorCode.INVALID_RECORD


def test_sets_larger_than_a_segment_are_refused(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_bytes=100))
    assert refusal(append, log, batch(20)) == ErrorCode.RECORD_LIST_TOO_LARGE
    assert refusal(append, log, batch() * 2, origin=AppendOrigin.COORDINATOR) == ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


def test_a_refused_batch_leaves_no_trace(tmp_path):
    log = new_log(tmp_path)
    append(log, produced(7, 0))
    before = all_bytes(log)
    broken = batch()
    broken[-1] ^= 1
    assert refusal(append, log, broken) == ErrorCode.CORRUPT_MESSAGE
    assert refusal(append, log, produced(7, 5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert all_bytes(log) == before and log.log_end_offset == 1


# Followers


def test_followers_take_batches_as_they_are(tmp_path):
    leader, follower = new_log(tmp_path / "a"), new_log(tmp_path / "b")
    for number in range(5):
        append(leader, produced(7, 2 * number, 2), epoch=number // 2)
    data = all_bytes(leader)
    result = follower.append_as_follower(data + data[:30], now_ms=NOW_MS)
    assert (result.first_offset, result.last_offset) == (0, 9)
    assert all_bytes(follower) == data
    assert follower.epochs.entries() == leader.epochs.entries() == [(0, 0), (1, 4), (2, 8)]
    assert follower.producers.producers[7].last_sequence == 9


def test_a_follower_begins_within_a_batch_up_to_which_the_leader_has_deleted_records(tmp_path):
    """It was away, or is new, while records were deleted: the leader sends the batch whole, as its log has it."""
    leader, follower = new_log(tmp_path / "a"), new_log(tmp_path / "b")
    append(leader, produced(7, 0, 2), epoch=1)
    append(leader, produced(7, 2, 5), epoch=2)
    leader.set_high_watermark(7)
    leader.delete_records(4)
    follower.truncate_fully_and_start_at(4)
    sent = leader.read(4, 1 << 20, upper_bound=7, min_one_batch=True).records
    assert follower.append_as_follower(sent, now_ms=NOW_MS).first_offset == 2
    follower.delete_records(4)
    assert (follower.log_start_offset, follower.high_watermark, follower.log_end_offset) == (4, 4, 7)
    assert all_bytes(follower) == bytes(sent) and segment_bases(follower) == [2]
    assert follower.epochs.entries() == [(2, 4)] and follower.producers.producers[7].last_sequence == 6
    assert reopened(follower, clean=False).log_end_offset == 7
    assert refusal(follower.append_as_follower, sent, now_ms=NOW_MS) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_batch_before_the_end_of_an_empty_log_is_refused(tmp_path):
    log = new_log(tmp_path)
    log.truncate_fully_and_start_at(4)
    assert refusal(log.append_as_follower, batch(2, base_offset=2), now_ms=NOW_MS) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.log_end_offset == 4


def test_followers_refuse_what_does_not_follow(tmp_path):
    log = new_log(tmp_path)
    append(log, batch(3))
    good = batch(base_offset=3)
    assert refusal(log.append_as_follower, batch(base_offset=2), now_ms=NOW_MS) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert refusal(log.append_as_follower, good + good, now_ms=NOW_MS) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert refusal(log.append_as_follower, good[:-1] + b"\x7f", now_ms=NOW_MS) == ErrorCode.CORRUPT_MESSAGE
    later = batch(base_offset=3, leader_epoch=2)
    assert refusal(log.append_as_follower, later, now_ms=NOW_MS, leader_epoch=1) == ErrorCode.FENCED_LEADER_EPOCH
    assert log.log_end_offset == 3
    assert log.append_as_follower(b"", now_ms=NOW_MS, leader_epoch=1).last_offset == 2
    assert log.append_as_follower(batch(base_offset=10), now_ms=NOW_MS).first_offset == 10


def test_followers_take_aborted_transactions_from_the_same_fetch(tmp_path):
    leader, follower = new_log(tmp_path / "a"), new_log(tmp_path / "b")
    append(leader, produced(7, 0, attributes=TRANSACTIONAL))
    end_transaction(leader, commit=False)
    follower.append_as_follower(all_bytes(leader), now_ms=NOW_MS)
    assert follower.aborted_transactions(0, 2) == leader.aborted_transactions(0, 2) != []


# Transactions


def test_the_last_stable_offset(tmp_path):
    log = new_log(tmp_path)
    append(log, batch(2))
    append(log, produced(7, 0, 3, attributes=TRANSACTIONAL))
    append(log, batch(2))
    log.set_high_watermark(1)
    assert log.last_stable_offset == 1
    log.set_high_watermark(7)
    assert log.last_stable_offset == 2
    end_transaction(log)
    assert log.last_stable_offset == 2
    log.set_high_watermark(8)
    assert log.last_stable_offset == 8


def test_aborted_transactions_of_a_range(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_bytes=300))
    for number in range(6):
        append(log, produced(7, number, attributes=TRANSACTIONAL))
        end_transaction(log, commit=number % 2 == 0)
    spans = [(2, 3), (6, 7), (10, 11)]
    assert len(log.segments) > 2
    for start in range(12):
        for end in range(start, 13):
            found = [(each.first_offset, each.last_offset) for each in log.aborted_transactions(start, end)]
            needed = [span for span in spans if span[1] >= start and span[0] < end]
            assert found == needed


def test_stale_coordinators_are_fenced(tmp_path):
    log = new_log(tmp_path)
    end_transaction(log, coordinator_epoch=4, epoch=2)
    assert refusal(end_transaction, log, coordinator_epoch=3, epoch=2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert refusal(end_transaction, log, coordinator_epoch=4, epoch=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    late = produced(7, -1, epoch=1)
    assert refusal(append, log, late, origin=AppendOrigin.COORDINATOR) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_truncation_opens_a_transaction_again(tmp_path):
    log = new_log(tmp_path)
    append(log, produced(7, 0, attributes=TRANSACTIONAL))
    end_transaction(log, commit=False)
    log.set_high_watermark(2)
    log.truncate_to(1)
    assert log.aborted_transactions(0, 2) == [] and log.producers.open_transactions == {7: 0}
    end_transaction(log, commit=False)
    assert len(log.aborted_transactions(0, 2)) == 1


# Rolling


def segment_bases(log):
    return [segment.base_offset for segment in log.segments]


def test_rolls_by_size(tmp_path):
    size = len(batch())
    log = new_log(tmp_path, TopicConfig(segment_bytes=3 * size))
    for _ in range(7):
        append(log)
    assert segment_bases(log) == [0, 3, 6]


def test_rolls_by_record_time(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_ms=1000))
    for late_ms in (0, 1000, 1001, 1500, 2001, 2002):
        append(log, batch(timestamp=NOW_MS + late_ms), now_ms=NOW_MS)
    assert segment_bases(log) == [0, 2, 5]
    log = reopened(log, clean=True)
    append(log, batch(timestamp=NOW_MS + 3002))
    append(log, batch(timestamp=NOW_MS + 3003))
    assert segment_bases(log) == [0, 2, 5, 7]


def test_rolls_by_wall_time_when_records_have_none(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_ms=1000))
    for late_ms in (0, 1000, 1001):
        append(log, batch(timestamp=-1), now_ms=NOW_MS + late_ms)
    assert segment_bases(log) == [0, 2]
    log.truncate_fully_and_start_at(5)
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 1500)
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 1600)
    assert segment_bases(log) == [5]


def test_compacted_topics_roll_in_time_for_the_largest_lag(tmp_path):
    log = new_log(tmp_path, TopicConfig(cleanup_policy=("compact",), max_compaction_lag_ms=100))
    append(log, batch(timestamp=NOW_MS))
    append(log, batch(timestamp=NOW_MS + 101))
    assert segment_bases(log) == [0, 1]


def test_rolls_when_an_index_is_full(tmp_path):
    log = new_log(tmp_path, TopicConfig(index_interval_bytes=0, segment_index_bytes=40))
    for number in range(12):
        append(log, batch(timestamp=NOW_MS + number))
    assert len(log.segments) == 4
    assert all(Path(each.time_index.path).stat().st_size <= 40 for each in log.segments)
    check_files(log)


def test_rolls_when_offsets_grow_too_far_from_the_base(tmp_path):
    log = new_log(tmp_path)
    far = (1 << 31) + 5
    log.append_as_follower(batch(base_offset=far), now_ms=NOW_MS)
    assert segment_bases(log) == [far], "the empty segment was replaced"
    log.append_as_follower(batch(base_offset=2 * far), now_ms=NOW_MS)
    assert segment_bases(log) == [far, 2 * far]
    assert sorted(path.name for path in Path(log.directory).glob("*.log")) == [
        f"{each:020d}.log" for each in (far, 2 * far)
    ]
    assert log.read(far + 1, 1000, upper_bound=3 * far, min_one_batch=True).records


def test_settings_hold_at_once(tmp_path):
    log = new_log(tmp_path)
    append(log)
    log.config = replace(log.config, segment_bytes=100)
    append(log)
    assert segment_bases(log) == [0, 1]


def test_an_empty_segment_does_not_roll(tmp_path):
    log = new_log(tmp_path)
    log.roll(NOW_MS)
    append(log)
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert segment_bases(log) == [0, 1]


# Deleting


def test_retention_takes_segments_and_later_their_files(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_bytes=200, retention_bytes=0, file_delete_delay_ms=1000))
    for number in range(9):
        append(log, produced(7, number), epoch=number // 3)
    log.set_high_watermark(5)
    bases = segment_bases(log)
    gone = log.delete_old_segments(NOW_MS)
    assert log.log_start_offset == bases[gone] == max(base for base in bases if base <= 5)
    assert log.epochs.entries()[0] == (log.log_start_offset // 3, log.log_start_offset)
    files = list(Path(log.directory).glob("*.deleted"))
    assert len(files) == 3 * gone
    log.local.delete_due_files(NOW_MS + 999)
    assert len(list(Path(log.directory).glob("*.deleted"))) == 3 * gone
    log.local.delete_due_files(NOW_MS + 1000)
    assert not list(Path(log.directory).glob("*.deleted"))
    assert refusal(log.read, 0, 100, upper_bound=9, min_one_batch=True) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_active_segment_goes_too_when_all_is_old(tmp_path):
    log = new_log(tmp_path, TopicConfig(retention_ms=1000))
    for _ in range(3):
        append(log)
    log.set_high_watermark(3)
    assert log.delete_old_segments(NOW_MS + 2000) == 1
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
    assert log.delete_old_segments(NOW_MS + 9000) == 0
    assert append(log).first_offset == 3
    assert reopened(log, clean=True).log_start_offset == 3


def test_delete_records(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_bytes=200))
    for _ in range(9):
        append(log)
    log.set_high_watermark(9)
    assert log.delete_records(5) == 5
    assert log.delete_records(3) == 5
    assert refusal(log.delete_records, 10) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert refusal(log.read, 4, 100, upper_bound=9, min_one_batch=True) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert headers_of(log)[0].base_offset == 5
    log.delete_old_segments(NOW_MS)
    assert log.segments.first_base_offset <= 5 and log.log_start_offset == 5


def test_a_search_by_time_finds_nothing_below_the_start(tmp_path):
    log = new_log(tmp_path)
    append(log, batch(5, timestamp=NOW_MS))
    append(log, batch(5, timestamp=NOW_MS - 100))
    log.delete_records(3)
    assert find_offset_for_timestamp(log, NOW_MS, 100) == (NOW_MS + 3, 3, 0)
    assert find_offset_for_timestamp(log, NOW_MS + 4, 4) is None


def test_what_is_cut_behind_a_produced_batch_is_not_stored(tmp_path):
    for codec in ("producer", "gzip"):
        log = new_log(tmp_path / codec, TopicConfig(compression_type=codec))
        append(log, batch(2) + batch(3)[:-1])
        append(log, batch(1) + b"x")
        assert [header.base_offset for header in headers_of(log)] == [0, 2]
        assert sum(header.size for header in headers_of(log)) == log.size_bytes


# Reading


def test_sizes_of_reads(tmp_path):
    log = new_log(tmp_path)
    for _ in range(4):
        append(log)
    size = len(batch())
    data = all_bytes(log)

    def read(offset, max_bytes, bound=4, whole=False):
        return log.read(offset, max_bytes, upper_bound=bound, min_one_batch=whole).records

    assert read(0, 10_000) == data
    assert read(1, 10_000) == data[size:]
    assert read(0, 2 * size + 5) == data[: 2 * size + 5]
    assert read(0, size - 1) == b"" and read(0, 0) == b"" and read(0, -1) == b""
    assert read(0, size - 1, whole=True) == read(0, 0, whole=True) == data[:size]
    assert read(2, 10_000, bound=3) == data[2 * size : 3 * size]
    assert read(3, 10_000, bound=3, whole=True) == read(4, 10_000, whole=True) == b""


def test_a_bound_within_a_batch_leaves_the_batch_out(tmp_path):
    log = new_log(tmp_path)
    append(log, batch(2))
    append(log, batch(5))
    for bound in range(3, 7):
        assert (
            log.read(0, 9999, upper_bound=bound, min_one_batch=True).records
            == all_bytes(log)[: headers_of(log)[1].position]
        )
    assert not log.read(3, 9999, upper_bound=5, min_one_batch=True).records


def test_a_search_goes_over_large_batches(tmp_path):
    log = new_log(tmp_path, TopicConfig(index_interval_bytes=1 << 30))
    for number in range(5):
        append(log, batch(2, value=bytes(20_000 * (number % 2))))
    for offset in range(10):
        records = log.read(offset, 1, upper_bound=10, min_one_batch=True).records
        assert BatchHeader.read(records).base_offset == offset // 2 * 2


def test_time_searches_see_inside_compressed_batches(tmp_path):
    log = new_log(tmp_path)
    stamps = [5, 9, 3, 9, 7]
    append(log, build_batch([NewRecord(b"k", b"v", NOW_MS + each) for each in stamps], codec=Codec.GZIP), epoch=6)
    assert find_offset_for_timestamp(log, NOW_MS + 6, 5) == (NOW_MS + 9, 1, 6)
    assert find_offset_of_max_timestamp(log) == (NOW_MS + 9, 1, 6)
    assert find_offset_for_timestamp(log, NOW_MS + 10, 5) is None
    assert find_offset_of_max_timestamp(new_log(tmp_path / "empty")) is None
