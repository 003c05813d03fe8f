"""What message.format.version below 0.11 makes of produced batches: messages of magic 0 and 1 with the log's offsets."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import topic_defaults_of
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.produce_validation import DecompressionBudget
from kafkalite.protocol.record_batches.record_walk import TooMuchAtOnce
from kafkalite.protocol.record_batches.records import NewRecord, build_batch, has_valid_crc, iter_batches
from kafkalite.storage.log.append_checks import AppendOrigin, check_in_thread
from kafkalite.storage.log.message_format import AT_ONCE_RECORDS, stored_magic
from tests.unit.storage.log.test_old_formats import decoded
from tests.unit.storage.logs import NOW_MS, all_bytes, append, headers_of, new_log, produced, reopened

RELEASES = {0: "0.9.0.1", 1: "0.10.2-IV0"}


def log_at(path, magic, **settings):
    return new_log(path, TopicConfig(message_format_acts=True, message_format_version=RELEASES[magic], **settings))


def batch_of(count, codec=0, start=0, **fields):
    records = [NewRecord(b"k%d" % number, b"v" * 20, NOW_MS + number) for number in range(start, start + count)]
    return build_batch(records, codec=codec, **fields)


def expected(magic, count):
    return [(number, NOW_MS + number if magic else -1, b"k%d" % number, b"v" * 20) for number in range(count)]


@pytest.mark.parametrize(
    ("release", "version", "magic"),
    [
        ("2.8", "0.8.2", 0),
        ("2.8", "0.9.0", 0),
        ("2.8-IV1", "0.10.0-IV1", 1),
        ("2.1", "0.10.2", 1),
        ("2.8", "0.11.0", 2),
        ("2.8", "2.8", 2),
        ("3.0", "0.9.0", 2),
        ("3.9-IV0", "0.10.2", 2),
    ],
)
def test_the_setting_acts_below_an_inter_broker_protocol_of_3_0(release, version, magic):
    texts = {"inter.broker.protocol.version": release, "log.message.format.version": version}
    assert stored_magic(topic_defaults_of(texts)) == magic
    by_topic = TopicConfig.from_overrides(
        topic_defaults_of({"inter.broker.protocol.version": release}), {"message.format.version": version}
    )
    assert stored_magic(by_topic) == magic
    assert stored_magic(topic_defaults_of({"inter.broker.protocol.version": release})) == 2


@pytest.mark.parametrize("magic", RELEASES)
@pytest.mark.parametrize("codec", range(4))
def test_what_is_produced_is_stored_in_the_older_format(tmp_path, magic, codec):
    log = log_at(tmp_path, magic)
    log.assign_epoch(3)
    for number in range(3):
        result = append(log, batch_of(4, codec, 4 * number), epoch=3)
        assert (result.first_offset, result.last_offset) == (4 * number, 4 * number + 3)
    headers, data = headers_of(log), all_bytes(log)
    assert {(each.magic, each.codec) for each in headers} == {(magic, codec)}
    assert len(headers) == (3 if codec else 12) and all(has_valid_crc(data, each) for each in headers)
    assert decoded(data) == expected(magic, 12) and log.latest_epoch is None
    log = reopened(log, clean=False)
    assert decoded(all_bytes(log)) == expected(magic, 12)


@pytest.mark.parametrize("magic", RELEASES)
@pytest.mark.parametrize("codec", range(4))
def test_what_takes_long_is_made_by_another_thread(tmp_path, magic, codec):
    log = log_at(tmp_path, magic)
    append(log, batch_of(1))
    count = AT_ONCE_RECORDS + 1
    records = batch_of(count, codec, 1)
    with pytest.raises(TooMuchAtOnce):
        append(log, records, check=DecompressionBudget())
    budget = DecompressionBudget()
    checked = check_in_thread(records, log.config, now_ms=NOW_MS, request_version=9, budget=budget)
    assert append(log, records, check=checked).last_offset == count
    headers = headers_of(log)
    assert {each.codec for each in headers[1:]} == {codec if magic else 0}
    assert decoded(all_bytes(log)) == expected(magic, count + 1)


@pytest.mark.parametrize("codec", [0, 1])
def test_the_brokers_time_is_that_of_the_messages(tmp_path, codec):
    log = log_at(tmp_path, 1, message_timestamp_type="LogAppendTime")
    append(log, batch_of(3, codec), now_ms=NOW_MS + 99)
    assert all(each.uses_log_append_time and each.max_timestamp == NOW_MS + 99 for each in headers_of(log))
    assert {each[1] for each in decoded(all_bytes(log))} == {NOW_MS + 99}


def test_a_coordinators_batches_are_stored_so_too(tmp_path):
    log = log_at(tmp_path, 1)
    append(log, batch_of(2) + batch_of(3, 0, 2), origin=AppendOrigin.COORDINATOR)
    assert decoded(all_bytes(log)) == expected(1, 5) and log.log_end_offset == 5


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize(
    ("records", "code"),
    [
        (produced(7, 0), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (batch_of(2, Codec.ZSTD), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (build_batch([NewRecord(b"k", b"v", NOW_MS, [("name", b"x")])]), ErrorCode.INVALID_RECORD),
    ],
)
def test_what_the_format_has_no_place_for_is_refused(tmp_path, records, code, in_thread):
    log = log_at(tmp_path, 1)
    with pytest.raises(KafkaError) as refused:
        check = None
        if in_thread:
            budget = DecompressionBudget()
            check = check_in_thread(bytearray(records), log.config, now_ms=NOW_MS, request_version=9, budget=budget)
        append(log, bytearray(records), check=check)
    assert refused.value.code == code and log.log_end_offset == 0 and not list(iter_batches(all_bytes(log)))


@pytest.mark.parametrize(
    ("release", "compression", "codec", "is_refused"),
    [
        ("2.0", "producer", Codec.ZSTD, True),
        ("1.1", "zstd", Codec.LZ4, True),
        ("1.1", "lz4", Codec.ZSTD, False),
        ("1.1", "producer", Codec.LZ4, False),
        ("2.1-IV0", "producer", Codec.ZSTD, False),
    ],
)
def test_zstd_is_not_stored_where_older_brokers_could_not_read_it(tmp_path, release, compression, codec, is_refused):
    """KIP-110, as LogValidator."""
    texts = {"inter.broker.protocol.version": release, "compression.type": compression}
    log = new_log(tmp_path, topic_defaults_of(texts))
    if not is_refused:
        append(log, batch_of(3, codec))
        return
    with pytest.raises(KafkaError) as problem:
        append(log, batch_of(3, codec))
    assert problem.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert log.log_end_offset == 0
