"""Compaction passes: what stays, what a reader sees, and what a stop at any moment leaves."""

from __future__ import annotations

import errno
import time
from random import Random

import pytest

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.records import (
    BatchHeader,
    NewRecord,
    assemble_batch,
    build_batch,
    build_marker,
    has_valid_crc,
    iter_batches,
    iter_records,
)
from kafkalite.storage.cleaning.batch_filter import OpenBatch
from kafkalite.storage.cleaning.cleaning import CorruptSegment
from kafkalite.storage.disk import OsDisk
from kafkalite.storage.log.append_checks import AppendOrigin
from tests.unit.storage.cleaner_settings import compact, part_of
from tests.unit.storage.logs import NOW_MS, all_bytes, append, check_files, headers_of, new_log, produced, reopened

RETENTION_MS = 1000


def config_of(**changes):
    return TopicConfig(
        **{
            "cleanup_policy": ("compact",),
            "segment_bytes": 4000,
            "index_interval_bytes": 200,
            "delete_retention_ms": RETENTION_MS,
            **changes,
        }
    )


def log_at(path, disk=None, **changes):
    return new_log(path, config_of(**changes), disk)


def put(log, *pairs, codec=0, **fields):
    """Append one batch of (key, value) records."""
    append(log, build_batch([NewRecord(key, value, NOW_MS) for key, value in pairs], codec=codec, **fields))
    log.set_high_watermark(log.log_end_offset)


def seal(log):
    log.roll(NOW_MS)
    log.set_high_watermark(log.log_end_offset)


def records_of(log):
    data = all_bytes(log)
    found = []
    for header in iter_batches(data):
        assert has_valid_crc(data, header)
        if not header.is_control:
            found += iter_records(data, header)
    return found


def contents(log):
    return [(record.offset, record.key, record.value) for record in records_of(log)]


# What stays


@pytest.mark.parametrize("codec", range(5))
def test_the_last_value_of_each_key_stays_at_its_offset(tmp_path, codec):
    log = log_at(tmp_path)
    put(log, (b"a", b"1"), (b"b", b"2"), codec=codec)
    put(log, (b"a", b"3"), (b"c", b"4"), codec=codec)
    put(log, (b"b", b"5"), codec=codec)
    seal(log)
    done = compact(log)
    assert contents(log) == [(2, b"a", b"3"), (3, b"c", b"4"), (4, b"b", b"5")]
    assert (done.keys, done.records_read, done.records_kept, done.first_dirty_offset) == (3, 5, 3, 5)
    assert [header.codec for header in headers_of(log)] == [codec, codec]
    check_files(log)


def test_a_batch_whose_records_all_stay_is_the_same_bytes(tmp_path):
    log = log_at(tmp_path)
    put(log, (b"a", b"1"), (b"b", b"2"), codec=2)
    before = all_bytes(log)
    seal(log)
    compact(log)
    assert all_bytes(log) == before


def test_the_active_segment_and_what_readers_of_committed_records_may_not_see_are_left_alone(tmp_path):
    log = log_at(tmp_path)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    seal(log)
    put(log, (b"a", b"3"))
    seal(log)
    put(log, (b"a", b"4"))
    log.high_watermark = 2
    compact(log)
    assert contents(log) == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4")]


def test_records_younger_than_the_lag_are_left_alone(tmp_path):
    log = log_at(tmp_path, min_compaction_lag_ms=500, max_compaction_lag_ms=5000)
    put(log, (b"a", b"1"), (b"a", b"2"))
    seal(log)
    assert part_of(log, NOW_MS + 499).dirty_bytes == 0
    part = part_of(log, NOW_MS + 500)
    assert part.is_due(log.config) and not part.overdue
    log.config = config_of(min_cleanable_dirty_ratio=1.0, min_compaction_lag_ms=500, max_compaction_lag_ms=5000)
    assert not part.is_due(log.config)
    assert part_of(log, NOW_MS + 5001).is_due(log.config), "max.compaction.lag.ms is stronger than the ratio"


def test_small_segments_become_one(tmp_path):
    log = log_at(tmp_path)
    for number in range(6):
        put(log, (b"key%d" % (number % 2), b"x" * 50))
        seal(log)
    assert len(log.segments) == 7
    compact(log)
    assert [(each.base_offset, each.size > 0) for each in log.segments] == [(0, True), (6, False)]
    assert [offset for offset, _, _ in contents(log)] == [4, 5]
    check_files(log)


def test_a_full_key_map_ends_the_pass_early_and_the_next_one_goes_on(tmp_path):
    log = log_at(tmp_path)
    for number in range(40):
        put(log, *((b"k%d" % key, b"%d" % number) for key in range(number, number + 3)))
    seal(log)
    ends = []
    while part_of(log).dirty_bytes:
        done = compact(log, log_cleaner_dedupe_buffer_size=24 * 12)
        assert done.keys <= 12
        ends.append(done.first_dirty_offset)
    assert len(ends) > 2 and ends == sorted(set(ends)) and ends[-1] == 120
    model = {key: offset for offset, key, _ in contents(log)}
    assert len(contents(log)) == len(model) == 42


def test_records_without_keys_go(tmp_path):
    log = log_at(tmp_path, cleanup_policy=("delete",))
    put(log, (None, b"1"), (b"a", b"2"))
    log.config = config_of()
    seal(log)
    compact(log)
    assert contents(log) == [(1, b"a", b"2")]


def test_header_names_that_are_no_text_stay_as_they_are(tmp_path):
    log = log_at(tmp_path)
    odd = b"\x00\x00\x00" + b"\x02a" + b"\x02v" + b"\x02" + b"\x04\xff\xfe" + b"\x02x"
    encoded = bytes((2 * len(odd),)) + odd
    body = encoded + encode_record(0, 1, b"b", b"1") + encode_record(0, 2, b"b", b"2")
    fields = {"base_timestamp": NOW_MS, "max_timestamp": NOW_MS, "base_offset": 0, "leader_epoch": 0, "attributes": 0}
    fields |= {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
    append(log, assemble_batch(body, records_count=3, last_offset_delta=2, **fields), origin=AppendOrigin.COORDINATOR)
    seal(log)
    compact(log)
    data = all_bytes(log)
    header = BatchHeader.read(data)
    assert header.records_count == 2 and has_valid_crc(data, header) and encoded in data


# Tombstones


@pytest.mark.parametrize("stamp", [2**63 - 1, -(2**63)])
def test_a_tombstone_keeps_a_timestamp_at_the_edge_of_64_bits(tmp_path, stamp):
    log = log_at(tmp_path)
    append(log, build_batch([NewRecord(b"a", None, stamp)]))
    seal(log)
    compact(log, NOW_MS)
    assert headers_of(log)[-1].delete_horizon_ms == NOW_MS + RETENTION_MS
    assert [each.timestamp for each in records_of(log)] == [stamp]


def test_a_tombstone_stays_for_the_retention_from_its_first_pass_on(tmp_path):
    log = log_at(tmp_path)
    put(log, (b"a", b"1"), (b"b", b"2"))
    put(log, (b"a", None), (b"c", b"3"))
    seal(log)
    compact(log, NOW_MS)
    header = headers_of(log)[-1]
    assert header.delete_horizon_ms == NOW_MS + RETENTION_MS
    records = records_of(log)
    assert [(r.offset, r.value, r.timestamp) for r in records] == [
        (1, b"2", NOW_MS),
        (2, None, NOW_MS),
        (3, b"3", NOW_MS),
    ]
    put(log, (b"d", b"4"))
    seal(log)
    compact(log, NOW_MS + RETENTION_MS - 1)
    assert headers_of(log)[1].delete_horizon_ms == NOW_MS + RETENTION_MS, "a horizon is set once"
    put(log, (b"d", b"5"))
    seal(log)
    compact(log, NOW_MS + RETENTION_MS)
    assert contents(log) == [(1, b"b", b"2"), (3, b"c", b"3"), (5, b"d", b"5")]


# Producers and transactions


def test_the_last_batch_of_an_active_producer_stays_as_a_header(tmp_path):
    log = log_at(tmp_path)
    append(log, produced(7, 0, 3))
    append(log, produced(8, 0, 1))
    put(log, (b"other", b"x"))
    log.config = config_of()
    put(log, (b"key", b"newest"))
    seal(log)
    compact(log)
    headers = headers_of(log)
    assert [(h.base_offset, h.last_offset, h.producer_id, h.last_sequence, h.records_count) for h in headers[:2]] == [
        (0, 2, 7, 2, 0),
        (3, 3, 8, 0, 0),
    ]
    log = reopened(log, clean=False, recovery_point=0)
    assert append(log, produced(7, 0, 3)).duplicate
    log.producers.expire(NOW_MS + 10**9, 1)
    put(log, (b"another", b"x"))
    seal(log)
    compact(log)
    assert [h.base_offset for h in headers_of(log)] == [4, 5, 6]


def transaction(log, pid, *keys, commit, sequence=0):
    records = [NewRecord(key, b"%d" % pid, NOW_MS) for key in keys]
    append(
        log,
        build_batch(records, attributes=0x10, producer_id=pid, producer_epoch=0, base_sequence=sequence),
    )
    end_transaction(log, pid, commit=commit)


def end_transaction(log, pid, *, commit):
    marker = build_marker(commit=commit, producer_id=pid, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS)
    append(log, marker, origin=AppendOrigin.COORDINATOR)
    log.set_high_watermark(log.log_end_offset)


def test_aborted_records_go_and_their_keys_count_for_nothing(tmp_path):
    log = log_at(tmp_path)
    put(log, (b"a", b"good"))
    transaction(log, 7, b"a", b"b", commit=False)
    transaction(log, 8, b"c", commit=True)
    put(log, (b"z", b"1"))
    seal(log)
    compact(log)
    assert contents(log) == [(0, b"a", b"good"), (4, b"c", b"8"), (6, b"z", b"1")]
    assert [entry.producer_id for entry in log.aborted_transactions(0, 7)] == [7]
    check_files(log)


def test_a_marker_stays_as_long_as_data_of_its_transaction_and_then_for_the_retention(tmp_path):
    log = log_at(tmp_path)
    transaction(log, 7, b"a", commit=True)
    put(log, (b"z", b"1"))
    seal(log)
    compact(log)
    markers = [h for h in headers_of(log) if h.is_control]
    assert [h.delete_horizon_ms for h in markers] == [None]
    put(log, (b"a", b"newer"))
    seal(log)
    log.producers.expire(NOW_MS + 10**9, 1)
    compact(log)  # the data goes, the marker was needed for it until now
    assert [h.delete_horizon_ms for h in headers_of(log) if h.is_control] == [None]
    put(log, (b"y", b"1"))
    seal(log)
    compact(log)
    assert [h.delete_horizon_ms for h in headers_of(log) if h.is_control] == [NOW_MS + RETENTION_MS]
    put(log, (b"y", b"2"))
    seal(log)
    compact(log, NOW_MS + RETENTION_MS)
    assert not [h for h in headers_of(log) if h.is_control]
    log = reopened(log, clean=False, recovery_point=0)
    assert log.last_stable_offset == log.high_watermark


def test_an_aborted_transaction_over_two_segments_is_known_in_both(tmp_path):
    log = log_at(tmp_path)
    first = build_batch(
        [NewRecord(b"a", b"no", NOW_MS)], attributes=0x10, producer_id=7, producer_epoch=0, base_sequence=0
    )
    append(log, first)
    seal(log)
    second = build_batch(
        [NewRecord(b"b", b"no", NOW_MS)], attributes=0x10, producer_id=7, producer_epoch=0, base_sequence=1
    )
    append(log, second)
    end_transaction(log, 7, commit=False)
    seal(log)
    put(log, (b"a", b"yes"))
    seal(log)
    compact(log)
    assert contents(log) == [(3, b"a", b"yes")]
    log = reopened(log, clean=True)
    assert contents(log) == [(3, b"a", b"yes")]


# Against a model


@pytest.mark.parametrize("seed", range(6))
def test_random_logs_agree_with_a_dict(tmp_path, seed):
    rng = Random(seed)
    log = log_at(tmp_path, segment_bytes=rng.choice([1000, 3000, 9000]))
    model, now = {}, NOW_MS
    for _ in range(8):
        for _ in range(rng.randrange(1, 40)):
            pairs = [
                (b"k%d" % rng.randrange(30), rng.choice([None, b"", rng.randbytes(rng.randrange(60))]))
                for _ in range(rng.randrange(1, 9))
            ]
            offset = log.log_end_offset
            put(log, *pairs, codec=rng.randrange(5))
            model.update((key, (offset + number, value)) for number, (key, value) in enumerate(pairs))
        if rng.random() < 0.7:
            seal(log)
        now += rng.randrange(2 * RETENTION_MS)
        compact(log, now, log_cleaner_io_buffer_size=rng.choice([300, 5000]), log_cleaner_dedupe_buffer_size=24 * 50)
        check_files(log)
        if rng.random() < 0.4:
            first_dirty = log.first_dirty_offset
            log = reopened(log, clean=rng.random() < 0.5, recovery_point=0)
            log.first_dirty_offset = first_dirty
        found = {}
        for offset, key, value in contents(log):
            assert key not in found or offset > found[key][0]
            found[key] = (offset, value)
        alive = {key: kept for key, kept in model.items() if kept[1] is not None}
        assert {key: kept for key, kept in found.items() if kept[1] is not None} == alive
        assert {key for key, kept in found.items() if kept[1] is None} <= model.keys() - alive.keys()


def test_many_records_of_few_keys(tmp_path, long):
    """Half a million records of 1000 keys in batches of 2000, through a key map of 64 KiB; two millions in a long run."""
    batches = 1000 if long else 250
    keys = [b"key-%d" % number for number in range(1000)]
    config = {"segment_bytes": 16 << 20, "index_interval_bytes": 4096, "max_message_bytes": 1 << 20}
    log = log_at(tmp_path, **config)
    rng = Random(5)
    templates = []
    for _ in range(8):
        order = rng.choices(range(1000), k=2000)
        body = b"".join(encode_record(0, n, keys[key], b"%04d-%05d" % (key, n)) for n, key in enumerate(order))
        last = {keys[key]: (n, b"%04d-%05d" % (key, n)) for n, key in enumerate(order)}
        templates.append((last, body))
    model = {}
    for number in range(batches):
        last, body = templates[rng.randrange(8)]
        batch = assemble_batch(
            body,
            records_count=2000,
            last_offset_delta=1999,
            base_timestamp=NOW_MS + number,
            max_timestamp=NOW_MS + number,
            base_offset=0,
            leader_epoch=0,
            attributes=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
        )
        append(log, batch, origin=AppendOrigin.COORDINATOR)
        offset = 2000 * number
        model.update((key, (offset + n, value)) for key, (n, value) in last.items())
    log.set_high_watermark(log.log_end_offset)
    seal(log)
    started = time.perf_counter()
    done = compact(log, log_cleaner_dedupe_buffer_size=1 << 16, log_cleaner_io_buffer_size=1 << 20)
    print(f"{done.records_read / (time.perf_counter() - started) / 1e6:.2f} million records a second")
    assert done.records_read == 2000 * batches and done.keys == done.records_kept == 1000
    assert {key: (offset, value) for offset, key, value in contents(log)} == model


# Stops and errors


class DyingDisk(OsDisk):
    """The machine's disk until its `lives`-th change, which, like all later ones, does not happen."""

    def __init__(self):
        super().__init__()
        self.lives = 1 << 60

    def spend(self):
        self.lives -= 1
        if self.lives < 0:
            raise OSError(errno.EIO, "the machine stopped")

    def rename(self, path, new_path):
        self.spend()
        super().rename(path, new_path)

    def remove(self, path):
        self.spend()
        super().remove(path)

    def open(self, path, *, create=False):
        if create:
            self.spend()
        return super().open(path, create=create)

    def sync(self, path):
        self.spend()
        super().sync(path)


def filled(path, disk):
    log = log_at(path, disk, segment_bytes=600)
    for number in range(12):
        put(log, (b"a", b"%d" % number), (b"k%d" % number, b"x" * 30))
    transaction(log, 7, b"a", b"b", commit=False)
    put(log, (b"end", b"1"))
    seal(log)
    log.flush()
    return log


def test_a_stop_at_any_moment_of_a_pass_leaves_the_old_or_the_new(tmp_path):
    disk = DyingDisk()
    log = filled(tmp_path / "whole", disk)
    old = contents(log)
    aborted = [(e.first_offset, e.last_offset) for e in log.aborted_transactions(0, log.log_end_offset)]
    compact(log)
    new = contents(log)
    assert len(new) < len(old) and aborted
    deaths = 0
    while True:
        log = filled(tmp_path / str(deaths), disk)
        disk.lives = deaths
        try:
            compact(log)
        except (OSError, KafkaError):
            pass
        done, disk.lives = disk.lives >= 0, 1 << 60
        if done:
            break
        log.log_directory.offline_reason = None
        log = reopened(log, clean=False)
        found = contents(log)
        assert set(new) <= set(found) <= set(old), deaths
        left = [(e.first_offset, e.last_offset) for e in log.aborted_transactions(0, log.log_end_offset)]
        assert left == aborted, "the marker is there, so what it aborted must be known"
        assert not [p for p in (tmp_path / str(deaths) / "topic-0").iterdir() if p.suffix in (".cleaned", ".swap")]
        check_files(log)
        compact(log)
        assert contents(log) == new
        deaths += 1
    assert deaths > 20


def test_bytes_behind_the_last_record_are_told_as_an_invalid_record_not_as_an_unexpected_error():
    batch = build_batch([NewRecord(key=b"k", value=b"v")])
    batch[8:12] = (len(batch) - 12 + 1).to_bytes(4, "big")
    batch += b"\0"
    (header,) = iter_batches(batch)
    with pytest.raises(KafkaError, match="1 bytes behind the last record"):
        OpenBatch(batch, header).records()


def test_a_broken_batch_ends_the_pass_and_changes_nothing(tmp_path):
    log = filled(tmp_path, None)
    segment = log.segments[0]
    with open(segment.path, "r+b") as file:
        file.seek(80)
        file.write(b"\xff")
    with pytest.raises(CorruptSegment, match=r"wrong CRC at 0, offset 0"):
        compact(log)
    assert not list((tmp_path / "topic-0").glob("*.cleaned"))
