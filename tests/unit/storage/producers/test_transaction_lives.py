"""Random lives of a log with transactions: what readers of committed records see is what was committed, whatever happened to the log.

Transactions of several producers interleave with plain records, truncation, compaction, deletion, retention, clean stops and crashes. A
reader fetches in small pieces and leaves out what each answer calls aborted, as consumers do (KIP-98).
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from kafkalite.config.topic import TopicConfig
from kafkalite.protocol.record_batches.records import (
    TRANSACTIONAL,
    NewRecord,
    build_batch,
    build_marker,
    iter_batches,
    iter_records,
    read_marker,
)
from kafkalite.storage.inspection import files_below, first_damage
from kafkalite.storage.log.append_checks import AppendOrigin
from kafkalite.storage.log.partition_log import PartitionLog
from tests.unit.storage.cleaner_settings import compact
from tests.unit.storage.logs import NOW_MS, check_files, new_log, reopened

PLAIN = -1
PRODUCERS = (1, 2, 3)


class Written(NamedTuple):
    """A record, and the number of the transaction that it belongs to; PLAIN without one."""

    offset: int
    value: bytes
    transaction: int


class Ended(NamedTuple):
    marker_offset: int
    committed: bool


class Life:
    """A log beside what is known of it without looking: records, transactions, markers."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = Random(seed)
        policy = ("compact",) if seed % 2 else ("delete",)
        config = TopicConfig(segment_bytes=700, index_interval_bytes=150, cleanup_policy=policy, delete_retention_ms=0)
        self.log: PartitionLog = new_log(path, config)
        self.records: list[Written] = []
        self.open: dict[int, int] = {}
        self.first_offsets: dict[int, int] = {}
        self.ended: dict[int, Ended] = {}
        self.transactions = 0
        self.boundaries = [0]
        """Where batches end: followers fetch whole ones, so high watermarks point there."""
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.epochs = dict.fromkeys(PRODUCERS, 0)

    # What happens to it

    def write(self, producer: int) -> None:
        """Keys are never written twice, so compaction removes what was aborted and nothing else."""
        count = self.chance.randint(1, 3)
        end = self.log.log_end_offset
        values = [b"%d" % (end + number) for number in range(count)]
        records = [NewRecord(value, value * self.chance.randint(1, 9), NOW_MS) for value in values]
        is_transactional = producer in self.open or (producer != PLAIN and self.chance.random() < 0.9)
        if producer != PLAIN:
            batch = build_batch(
                records,
                codec=self.chance.choice((0, 0, 2)),
                attributes=TRANSACTIONAL if is_transactional else 0,
                producer_id=producer,
                producer_epoch=self.epochs[producer],
                base_sequence=self.sequences[producer],
            )
            self.sequences[producer] += count
        else:
            batch = build_batch(records)
        result = self.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
        self.boundaries.append(result.last_offset + 1)
        if is_transactional and producer not in self.open:
            self.open[producer] = self.transactions
            self.first_offsets[self.transactions] = result.first_offset
            self.transactions += 1
        transaction = self.open.get(producer, PLAIN) if is_transactional else PLAIN
        for number, value in enumerate(values):
            self.records.append(Written(result.first_offset + number, value, transaction))

    def end(self, producer: int) -> None:
        """Also where nothing is open: a coordinator may send a marker twice."""
        if self.chance.random() < 0.2:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        committed = self.chance.random() < 0.5
        marker = build_marker(
            commit=committed,
            producer_id=producer,
            producer_epoch=self.epochs[producer],
            coordinator_epoch=0,
            timestamp=NOW_MS,
        )
        end = self.log.log_end_offset
        self.log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
        self.boundaries.append(end + 1)
        transaction = self.open.pop(producer, None)
        if transaction is not None:
            self.ended[transaction] = Ended(end, committed)

    def commit_some(self) -> None:
        log = self.log
        reached = self.chance.choice([each for each in self.boundaries if log.high_watermark <= each] or [0])
        log.set_high_watermark(reached)

    def truncate(self) -> None:
        """A follower cuts what was not committed; the rest of a batch goes with its first record."""
        log = self.log
        log.truncate_to(self.chance.randint(log.high_watermark, log.log_end_offset))
        end = log.log_end_offset
        self.boundaries = [each for each in self.boundaries if each < end] + [end]
        self.records = [each for each in self.records if each.offset < end]
        self.ended = {number: each for number, each in self.ended.items() if each.marker_offset < end}
        self.first_offsets = {number: first for number, first in self.first_offsets.items() if first < end}
        self.open = {}
        for producer, first in log.producers.open_transactions.items():
            (self.open[producer],) = [number for number, offset in self.first_offsets.items() if offset == first]
        assert set(self.open.values()) == set(self.first_offsets) - set(self.ended), "all that is open, and no more"
        self._follow_sequences()

    def reopen(self) -> None:
        self.log = reopened(self.log, clean=self.chance.random() < 0.5)
        assert self.log.producers.open_transactions == {
            producer: self.first_offsets[number] for producer, number in self.open.items()
        }
        self._follow_sequences()

    def _follow_sequences(self) -> None:
        for producer in PRODUCERS:
            known = self.log.producers.producers.get(producer)
            self.sequences[producer] = known.last_sequence + 1 if known else 0
            self.epochs[producer] = known.epoch if known else 0

    def shrink(self) -> None:
        log = self.log
        if log.config.cleanup_policy == ("compact",):
            compact(log)
        else:
            log.delete_records(self.chance.randint(log.log_start_offset, log.high_watermark))
            log.delete_old_segments(NOW_MS)
            self.records = [each for each in self.records if each.offset >= log.log_start_offset]

    def step(self) -> None:
        what = self.chance.random()
        if what < 0.5:
            self.write(self.chance.choice((PLAIN, *PRODUCERS)))
        elif what < 0.72:
            self.end(self.chance.choice(PRODUCERS))
        elif what < 0.88:
            self.commit_some()
        elif what < 0.91:
            self.truncate()
        elif what < 0.94:
            self.reopen()
        elif what < 0.96:
            self.log.roll(NOW_MS)
        else:
            self.shrink()

    # What is seen of it

    def read_committed(self, max_bytes: int) -> list[tuple[int, bytes]]:
        """(offset, key) of the records that a consumer delivers which fetches up to `max_bytes` at a time, from the log's start."""
        log = self.log
        seen: list[tuple[int, bytes]] = []
        offset, end = log.log_start_offset, log.last_stable_offset
        while offset < end:
            read = log.read(offset, max_bytes, upper_bound=end, min_one_batch=True)
            coming = sorted(log.aborted_transactions(offset, end, read), key=lambda each: each.first_offset)
            aborted: set[int] = set()
            headers = list(iter_batches(read.records))
            if not headers:
                break
            for header in headers:
                while coming and coming[0].first_offset <= header.last_offset:
                    aborted.add(coming.pop(0).producer_id)
                if header.is_control:
                    marker = read_marker(read.records, header)
                    if marker is not None and marker.type == 0:
                        aborted.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborted):
                    seen += [
                        (each.offset, each.key or b"")
                        for each in iter_records(read.records, header)
                        if each.offset >= offset
                    ]
            offset = headers[-1].next_offset
        return seen

    def check(self) -> None:
        log = self.log
        end = log.last_stable_offset
        unsettled = [self.first_offsets[number] for number in self.open.values()]
        assert log.log_start_offset <= end <= log.high_watermark
        assert all(first >= end or first < log.log_start_offset for first in unsettled), "nothing open is shown"
        if not unsettled and all(each.marker_offset < log.high_watermark for each in self.ended.values()):
            assert end == log.high_watermark, "nothing that is settled is kept back"
        expected = [
            (each.offset, each.value)
            for each in self.records
            if log.log_start_offset <= each.offset < end
            and (each.transaction == PLAIN or self.ended[each.transaction].committed)
        ]
        assert self.read_committed(self.chance.choice((1, 200, 100_000))) == expected


@pytest.mark.parametrize("seed", range(24))
def test_readers_of_committed_records_see_what_was_committed(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    for _ in range(60):
        life.step()
        life.check()
    check_files(life.log)
    life.log.flush()
    assert not [str(each) for path in files_below(tmp_path) if (each := first_damage(path)) is not None]
    life.reopen()
    life.check()
