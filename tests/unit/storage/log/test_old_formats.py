"""Logs with messages of the formats before record batches, as brokers of 0.9 and 0.10.2 left them: opened, read, cut, gone on with."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from kafkalite.client.consumer.fetch_buffer import Chunk
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.records import iter_batches
from kafkalite.storage.log.recovery import LoadOptions, LoadProgress, load_log
from kafkalite.storage.log.timestamp_search import find_offset_for_timestamp, find_offset_of_max_timestamp
from kafkalite.types import TopicPartition
from tests.unit.storage.logs import (
    DAY_MS,
    NOW_MS,
    all_bytes,
    append,
    batch,
    directory_at,
    headers_of,
    new_log,
    reopened,
)
from tests.unit.storage.old_logs import CODECS, FORMATS, RECORDS, contents, timestamp, unpack

EVERY = pytest.mark.parametrize(("release", "topic"), [(release, codec) for release in FORMATS for codec in CODECS])
WRAPPED = pytest.mark.parametrize(("release", "topic"), [("0.9", "gzip"), ("0.10.2", "lz4")])


def opened(path, topic, *, clean=True, **config):
    directory = directory_at(path)
    log = load_log(
        TopicPartition(topic, 0),
        directory,
        directory.file(f"{topic}-0"),
        config=TopicConfig(index_interval_bytes=300, segment_ms=1 << 60, **config),
        rng=Random(1),
        options=LoadOptions(clean, 0, 0, NOW_MS, DAY_MS),
    )
    log.set_high_watermark(log.log_end_offset)
    return log


def decoded(data, position=0):
    """What a consumer reads from bytes of a log."""
    chunk, found = Chunk(TopicPartition("topic", 0), data, ()), []
    while not chunk.is_exhausted:
        taken, position = chunk.read(position, True, lambda reader: reader.read(1000))
        found += [(each.offset, each.timestamp, each.key, each.value) for each in taken or ()]
    return found


def segment_file(log) -> Path:
    return Path(log.segments.active.path)


@EVERY
@pytest.mark.parametrize("clean", [True, False])
def test_all_is_read_as_it_was_written(tmp_path, release, topic, clean):
    log = opened(unpack(release, tmp_path), topic, clean=clean)
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (0, RECORDS, None)
    assert {header.magic for header in headers_of(log)} == {FORMATS[release]}
    assert decoded(all_bytes(log)) == contents(release, topic)


@EVERY
def test_each_offset_is_found(tmp_path, release, topic):
    """With the indexes that the old broker wrote, and with those made here; they differ."""
    path = unpack(release, tmp_path)
    expected = contents(release, topic)
    for clean in (True, False):
        log = opened(path, topic, clean=clean)
        for offset in range(RECORDS):
            data = log.read(offset, 1, upper_bound=RECORDS, min_one_batch=True).records
            assert decoded(data, offset)[0] == expected[offset]
        log.close()


@pytest.mark.parametrize("topic", CODECS)
def test_records_are_found_by_their_time(tmp_path, topic):
    log = opened(unpack("0.10.2", tmp_path), topic)
    for number in (0, 1, 17, RECORDS - 1):
        for before_ms in (0, 500):
            found = find_offset_for_timestamp(log, timestamp("0.10.2", number) - before_ms, RECORDS)
            assert found == (timestamp("0.10.2", number), number, -1)
    assert find_offset_for_timestamp(log, timestamp("0.10.2", RECORDS), RECORDS) is None
    assert find_offset_of_max_timestamp(log) == (timestamp("0.10.2", RECORDS - 1), RECORDS - 1, -1)


def test_without_timestamps_nothing_is_found_by_time(tmp_path):
    log = opened(unpack("0.9", tmp_path), "gzip")
    assert find_offset_for_timestamp(log, 0, RECORDS) is None and find_offset_of_max_timestamp(log) is None


@EVERY
def test_a_torn_end_is_cut(tmp_path, release, topic):
    path = unpack(release, tmp_path)
    log = opened(path, topic)
    headers = headers_of(log)
    data = segment_file(log).read_bytes()
    for kept in (len(data) - 1, headers[-1].position + 13, headers[-1].position + 1):
        segment_file(log).write_bytes(data[:kept])
        cut = opened(path, topic, clean=False)
        assert cut.log_end_offset == headers[-2].next_offset and segment_file(cut).stat().st_size == headers[-2].end


def test_after_a_crash_only_what_may_not_be_on_the_medium_is_checked(tmp_path):
    """That there are no leader epochs is no reason to read all of it, as it would be beside batches."""
    path = unpack("0.10.2", tmp_path)
    log = opened(path, "none")
    log.close()
    progress = LoadProgress()
    directory = directory_at(path)
    options = LoadOptions(False, RECORDS, 0, NOW_MS, DAY_MS)
    name, folder = TopicPartition("none", 0), directory.file("none-0")
    (path / "none-0" / f"{RECORDS:020d}.log").touch()
    log = load_log(name, directory, folder, config=TopicConfig(), rng=Random(1), options=options, progress=progress)
    assert log.log_end_offset == RECORDS and progress.checked_bytes == 0


@EVERY
def test_a_message_with_a_wrong_crc_ends_the_log(tmp_path, release, topic):
    path = unpack(release, tmp_path)
    log = opened(path, topic)
    headers = headers_of(log)
    data = bytearray(segment_file(log).read_bytes())
    data[headers[2].end - 1] ^= 1
    segment_file(log).write_bytes(data)
    assert opened(path, topic, clean=False).log_end_offset == headers[1].next_offset


@EVERY
def test_a_follower_copies_the_bytes_and_cuts_them_anywhere(tmp_path, release, topic):
    leader = opened(unpack(release, tmp_path), topic)
    for offset in range(0, RECORDS, 7):
        follower = new_log(tmp_path / f"follower-{offset}")
        follower.append_as_follower(all_bytes(leader), now_ms=NOW_MS)
        assert all_bytes(follower) == all_bytes(leader)
        follower.truncate_to(offset)
        end = follower.log_end_offset
        assert end <= offset and [each[0] for each in decoded(all_bytes(follower))] == list(range(end))
        follower = reopened(follower, clean=offset % 2 == 0)
        data = leader.read(end, 1 << 20, upper_bound=RECORDS, min_one_batch=True).records
        follower.append_as_follower(data, now_ms=NOW_MS)
        assert all_bytes(follower) == all_bytes(leader) and follower.end_offset_for_epoch(0) == (-1, -1)


def test_a_follower_refuses_messages_that_were_changed(tmp_path):
    data = bytearray(all_bytes(opened(unpack("0.10.2", tmp_path), "none")))
    data[30] ^= 1
    with pytest.raises(KafkaError):
        new_log(tmp_path / "follower").append_as_follower(data, now_ms=NOW_MS)


@EVERY
@pytest.mark.parametrize("clean", [True, False])
def test_batches_follow_in_the_same_segment(tmp_path, release, topic, clean):
    log = opened(unpack(release, tmp_path), topic)
    log.assign_epoch(5)
    append(log, batch(3), epoch=5)
    assert len(log.segments) == 1 and log.epochs.entries() == [(5, RECORDS)]
    log = reopened(log, clean=clean)
    assert log.log_end_offset == RECORDS + 3 and log.epochs.entries() == [(5, RECORDS)]
    found = decoded(all_bytes(log))
    assert found[:RECORDS] == contents(release, topic)
    assert [each[0] for each in found[RECORDS:]] == [RECORDS, RECORDS + 1, RECORDS + 2]
    assert find_offset_for_timestamp(log, NOW_MS + 1, log.log_end_offset) == (NOW_MS + 1, RECORDS + 1, 5)
    assert log.end_offset_for_epoch(4) == (4, RECORDS) and log.end_offset_for_epoch(5) == (5, RECORDS + 3)


def test_old_messages_behind_batches_end_the_history_of_epochs(tmp_path):
    """A leader that went back to an older format: the follower's epochs say nothing any more."""
    log = new_log(tmp_path)
    for epoch in (1, 2):
        append(log, epoch=epoch)
    log.flush()
    old = opened(unpack("0.10.2", tmp_path), "none")
    log.append_as_follower(old.read(2, 1 << 20, upper_bound=RECORDS, min_one_batch=True).records, now_ms=NOW_MS)
    assert log.log_end_offset == RECORDS and log.latest_epoch is None and log.end_offset_for_epoch(1) == (-1, -1)
    assert (Path(log.directory) / "leader-epoch-checkpoint").read_text() == "0\n0\n"
    assert [header.magic for header in headers_of(log)][:4] == [2, 2, 1, 1]


@WRAPPED
def test_messages_and_batches_in_turns(tmp_path, release, topic):
    """Searches and the start go over changes of the format in one segment, whatever comes first and last."""
    old = all_bytes(opened(unpack(release, tmp_path), topic))
    plain = all_bytes(opened(tmp_path / release, "none"))
    log = new_log(tmp_path / "mixed", TopicConfig(index_interval_bytes=300))
    append(log, batch(2))
    log.append_as_follower(memoryview(old)[: list(iter_batches(old))[-1].end], now_ms=NOW_MS)
    append(log, batch(3), epoch=1)
    end = log.log_end_offset
    for data in (plain, b""):
        log = reopened(log, clean=not data)
        assert log.log_end_offset == end
        expected = {each[0] for each in decoded(all_bytes(log))}
        for offset in range(end):
            piece = log.read(offset, 1, upper_bound=end, min_one_batch=True).records
            assert decoded(piece, offset)[0][0] == min(each for each in expected if each >= offset)


def test_segments_without_timestamps_go_by_the_time_of_their_file(tmp_path):
    path = unpack("0.9", tmp_path)
    log = opened(path, "gzip", retention_ms=DAY_MS)
    for segment in log.segments:
        segment.modified_ms = NOW_MS - DAY_MS
    assert log.delete_old_segments(NOW_MS) == 0
    assert log.delete_old_segments(NOW_MS + 1) == 1 and log.log_start_offset == RECORDS


def test_records_are_deleted_within_a_wrapper(tmp_path):
    log = opened(unpack("0.10.2", tmp_path), "gzip")
    log.delete_records(13)
    assert log.log_start_offset == 13
    assert find_offset_for_timestamp(log, 0, RECORDS) == (timestamp("0.10.2", 13), 13, -1)
    data = log.read(13, 1, upper_bound=RECORDS, min_one_batch=True).records
    assert decoded(data, 13)[0][0] == 13


@pytest.mark.parametrize("release", FORMATS)
def test_what_old_brokers_did_not_write_is_made(tmp_path, release):
    path = unpack(release, tmp_path)
    log = opened(path, "lz4")
    names = {each.name for each in (path / "lz4-0").iterdir()}
    assert {f"{0:020d}{kind}" for kind in (".log", ".index", ".timeindex")} <= names
    log.close()
    shutil.rmtree(path / "gzip-0")
    assert decoded(all_bytes(opened(path, "lz4"))) == contents(release, "lz4")
