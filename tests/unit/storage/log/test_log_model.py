"""Random lives of a log against a plain list of batches: appends, rolls, truncations, deletions, clean stops and crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.records import (
    BatchHeader,
    decode_records,
    iter_batches,
    set_offset_and_epoch_in_place,
)
from kafkalite.storage.log.leader_epochs import LeaderEpochs
from kafkalite.storage.log.timestamp_search import find_offset_for_timestamp, find_offset_of_max_timestamp
from tests.unit.storage.logs import NOW_MS, all_bytes, append, batch, check_files, new_log, produced, reopened

shares = st.floats(0, 1)


class LogLife(RuleBasedStateMachine):
    @initialize(interval=st.sampled_from([0, 100, 4096]), segment_bytes=st.sampled_from([300, 1000, 1 << 20]))
    def begin(self, interval, segment_bytes):
        self.folder = Path(tempfile.mkdtemp())
        config = TopicConfig(index_interval_bytes=interval, segment_bytes=segment_bytes)
        self.log = new_log(self.folder, config, with_files=False)
        self.batches: list[bytes] = []
        self.epoch = 0
        self.sequence = {1: 0, 2: 0}
        self.end = 0

    def teardown(self):
        if hasattr(self, "folder"):
            self.log.log_directory.files.close()
            shutil.rmtree(self.folder)

    def stored(self, records, offset, epoch):
        copy = bytearray(records)
        set_offset_and_epoch_in_place(copy, 0, offset, epoch)
        return bytes(copy)

    @rule(count=st.integers(1, 4), codec=st.integers(0, 4), early_ms=st.integers(-1000, 1000))
    def lead(self, count, codec, early_ms):
        records = batch(count, codec=codec, timestamp=NOW_MS - early_ms)
        self.batches.append(self.stored(records, self.end, self.epoch))
        result = append(self.log, records, epoch=self.epoch)
        assert (result.first_offset, result.last_offset) == (self.end, self.end + count - 1)
        self.end += count

    @rule(producer=st.sampled_from([1, 2]), again=st.booleans())
    def lead_idempotently(self, producer, again):
        sequence = self.sequence[producer]
        records = produced(producer, sequence, 2)
        copy = bytearray(records)
        stored = self.stored(records, self.end, self.epoch)
        result = append(self.log, records, epoch=self.epoch)
        assert result.first_offset == self.end and not result.duplicate
        self.batches.append(stored)
        self.end += 2
        self.sequence[producer] += 2
        if again:
            second = append(self.log, copy, epoch=self.epoch)
            assert second.duplicate and second.first_offset == result.first_offset

    @rule(gap=st.sampled_from([0, 0, 3]), counts=st.lists(st.integers(1, 3), min_size=1, max_size=3))
    def follow(self, gap, counts):
        """Batches as a leader's compacted log may have them: with gaps between offsets."""
        offset, data = self.end + gap, b""
        for count in counts:
            one = self.stored(batch(count), offset, self.epoch)
            self.batches.append(one)
            data += one
            offset += count
        self.log.append_as_follower(data + one[:-5], now_ms=NOW_MS)
        self.end = offset

    @rule()
    def new_epoch(self):
        self.epoch += 1
        self.log.assign_epoch(self.epoch)

    @rule()
    def roll(self):
        self.log.roll(NOW_MS)

    @rule()
    def make_files(self):
        self.log.make_files()

    @rule()
    def flush(self):
        self.log.flush()

    @precondition(lambda self: self.batches)
    @rule(share=shares)
    def truncate(self, share):
        kept = self.batches[: int(share * (len(self.batches) - 1))]
        offset = BatchHeader.read(self.batches[len(kept)]).base_offset
        if offset < self.log.log_start_offset:
            return
        self.log.truncate_to(offset)
        self.forget_behind(kept, offset)

    @rule(share=shares)
    def delete_records(self, share):
        start = self.log.log_start_offset
        self.log.set_high_watermark(self.end)
        offset = start + int(share * (self.end - start))
        assert self.log.delete_records(offset) == offset
        self.log.delete_old_segments(NOW_MS)
        self.log.local.delete_due_files(NOW_MS + 60_000)
        assert self.log.log_start_offset == offset
        first = self.log.segments.first_base_offset
        self.batches = [each for each in self.batches if BatchHeader.read(each).last_offset >= first]

    @rule(jump=st.integers(1, 50))
    def start_over(self, jump):
        self.log.truncate_fully_and_start_at(self.end + jump)
        self.forget_behind([], self.end + jump)

    @rule(clean=st.booleans())
    def reopen(self, clean):
        self.log = reopened(self.log, clean=clean)
        self.forget_gap_at_end()

    @precondition(lambda self: self.log.segments.active.size)
    @rule(share=shares, junk=st.integers(0, 200))
    def crash(self, share, junk):
        """The end of the active segment, as far as it was not flushed, is lost or turns to something else, then zeros."""
        segment = self.log.segments.active
        inside = list(segment.headers())
        flushed = max((each.end for each in inside if each.next_offset <= self.log.recovery_point), default=0)
        size = flushed + int(share * (segment.size - flushed))
        with open(segment.path, "r+b") as file:
            file.seek(size)
            lost = file.read(1) or b"x"
            file.truncate(size)
            file.seek(size)
            file.write(bytes((lost[0] ^ 0xFF,))[:junk] + bytes(max(junk - 1, 0)))
        survivors = [each.next_offset for each in inside if each.end <= size]
        end = max([segment.base_offset, self.log.log_start_offset, *survivors])
        self.log = reopened(self.log, clean=False)
        self.forget_behind([each for each in self.batches if BatchHeader.read(each).last_offset < end], end)

    def forget_gap_at_end(self):
        """A log truncated into a gap between batches ends there until it is opened again, as Kafka's."""
        last = BatchHeader.read(self.batches[-1]).next_offset if self.batches else 0
        self.end = max(last, self.log.log_start_offset, self.log.segments.active.base_offset)

    def forget_behind(self, kept, offset):
        self.batches = kept
        self.end = offset
        for producer in self.sequence:
            headers = [BatchHeader.read(each) for each in kept]
            mine = [header for header in headers if header.producer_id == producer]
            known = self.log.producers.producers.get(producer)
            self.sequence[producer] = mine[-1].last_sequence + 1 if mine else known.last_sequence + 1 if known else 0

    @invariant()
    def the_log_is_the_list(self):
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.log_end_offset == self.end
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.log_start_offset <= log.recovery_point <= log.log_end_offset
        live = [each for each in self.batches if BatchHeader.read(each).last_offset >= log.log_start_offset]
        assert all_bytes(log) == b"".join(live)
        check_files(log)

    @invariant()
    def epochs_are_those_of_the_batches(self):
        if not hasattr(self, "log"):
            return
        told = LeaderEpochs()
        start = self.log.log_start_offset
        for each in self.batches:
            header = BatchHeader.read(each)
            if header.last_offset >= start:
                told.assign(header.partition_leader_epoch, max(header.base_offset, start))
        for epoch, offset in told.entries():
            assert self.log.epochs.epoch_for_offset(offset) == epoch

    @rule(share=shares, size=st.integers(0, 1000), bound=shares, whole=st.booleans())
    def read(self, share, size, bound, whole):
        log = self.log
        offset = log.log_start_offset + int(share * (self.end - log.log_start_offset))
        upper = log.log_start_offset + int(bound * (self.end - log.log_start_offset))
        data = log.read(offset, size, upper_bound=upper, min_one_batch=whole).records
        expected = [each for each in self.batches if BatchHeader.read(each).last_offset >= offset]
        expected = [each for each in expected if BatchHeader.read(each).last_offset < upper]
        if offset >= upper or not expected:
            assert not data
        else:
            assert b"".join(expected).startswith(data)
            assert bool(data) == (whole or size >= len(expected[0]))
            assert not whole or len(data) >= len(expected[0])
            assert len(data) <= max(size, len(expected[0]) if whole else 0)

    @rule()
    def read_outside(self):
        for offset in (self.log.log_start_offset - 1, self.end + 1):
            try:
                self.log.read(offset, 100, upper_bound=self.end, min_one_batch=True)
            except KafkaError as problem:
                assert problem.code == ErrorCode.OFFSET_OUT_OF_RANGE
            else:
                raise AssertionError(f"read at {offset}")

    @rule(late_ms=st.integers(-1500, 1500))
    def look_up_a_time(self, late_ms):
        log, stamp = self.log, NOW_MS + late_ms
        records = [
            record
            for each in self.batches
            for header in iter_batches(each)
            for record in decode_records(each, header)
            if record.offset >= log.log_start_offset
        ]
        expected = next(((each.timestamp, each.offset) for each in records if each.timestamp >= stamp), None)
        found = find_offset_for_timestamp(log, stamp, log.log_end_offset)
        assert (found and found[:2]) == expected
        if records:
            largest = max(each.timestamp for each in records)
            first = next(each.offset for each in records if each.timestamp == largest)
            found = find_offset_of_max_timestamp(log)
            if found is not None and found[0] == largest:
                assert found[1] == first


TestLogLife = LogLife.TestCase
TestLogLife.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
