"""Logs with batches of several producers at random, and the committed records in them, found otherwise than the broker finds them."""

from __future__ import annotations

from random import Random
from typing import Any

from kafkalite.portions import in_one_go
from kafkalite.protocol.record_batches.record_digest import RangeDigest, digest_records
from kafkalite.protocol.record_batches.records import (
    TRANSACTIONAL,
    NewRecord,
    Record,
    build_batch,
    build_marker,
    iter_batches,
    iter_records,
)
from kafkalite.storage.log.append_checks import AppendOrigin
from kafkalite.storage.log.partition_log import PartitionLog
from tests.unit.storage.logs import NOW_MS, all_bytes, append


def committed(log: PartitionLog) -> list[Record]:
    """The committed records, found in another way: by the markers, read from the end."""
    data = all_bytes(log)
    found: list[Record] = []
    ends: dict[int, bool] = {}
    for header in reversed(list(iter_batches(data))):
        records = list(iter_records(data, header))
        if header.is_control:
            ends[header.producer_id] = records[0].key == b"\0\0\0\1"
        elif not header.is_transactional or ends.get(header.producer_id, False):
            found += records
    return [each for each in found if log.log_start_offset <= each.offset < log.last_stable_offset]


def expected(
    log: PartitionLog, start: int = 0, end: int = 1 << 62, since: int = 0, until: int = 1 << 62
) -> RangeDigest:
    """The digest of the committed records of a range, and of a span of time, hashed one by one."""
    records = [each for each in committed(log) if start <= each.offset < end and since <= each.timestamp < until]
    return in_one_go(digest_records(records, 0, 1 << 62))


class Writer:
    """Appends batches of several producers at random, within transactions and outside of them, in any codec."""

    def __init__(self, log: PartitionLog, random: Random) -> None:
        self.log, self.random = log, random
        self.sequences: dict[int, int] = {}
        self.open: dict[int, None] = {}

    def write(self, batches: int) -> None:
        random = self.random
        for _ in range(batches):
            producer = random.choice((-1, -1, 5, 6, 7))
            if producer in self.open and random.random() < 0.4:
                self.end(producer)
                continue
            count = random.randint(1, 6)
            records = [
                NewRecord(
                    random.choice((None, b"", b"k%d" % random.randrange(9))),
                    random.choice((None, random.randbytes(random.randrange(60)))),
                    NOW_MS + random.randrange(1000),
                    [("h", b"x")] if random.random() < 0.2 else (),
                )
                for _ in range(count)
            ]
            fields: dict[str, Any] = {}
            if producer >= 0:
                fields = {
                    "producer_id": producer,
                    "producer_epoch": 0,
                    "base_sequence": self.sequences.get(producer, 0),
                }
                self.sequences[producer] = fields["base_sequence"] + count
                fields["attributes"] = TRANSACTIONAL
                self.open[producer] = None
            append(self.log, build_batch(records, codec=random.randrange(5), **fields))
        self.log.set_high_watermark(self.log.log_end_offset)

    def end(self, producer: int, *, commit: bool | None = None) -> None:
        is_commit = self.random.random() < 0.5 if commit is None else commit
        marker = build_marker(
            commit=is_commit, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS
        )
        append(self.log, marker, origin=AppendOrigin.COORDINATOR)
        del self.open[producer]

    def end_all(self, *, commit: bool | None = None) -> None:
        for producer in list(self.open):
            self.end(producer, commit=commit)
        self.log.set_high_watermark(self.log.log_end_offset)
