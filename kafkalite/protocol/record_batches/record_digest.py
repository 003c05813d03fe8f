"""Digests of ranges of offsets: how many records, how many bytes, and a fingerprint of them that does not depend on their order. Pure.

A record is hashed with murmur3 (x64, 128 bits, seed 0) over

    offset i64, timestamp i64, length of key i32, length of value i32, key, value,
    for each header: length of name i32, name as UTF-8, length of value i32, value

big endian; the length of what is null is -1, and nothing follows it. No two records have the same encoding, and it says nothing of
batches, compression, formats or the epochs of leaders. A timestamp is the one that readers see: where the broker sets it, that of the
append; -1 in the oldest format. What is no UTF-8 in the name of a header counts as the U+FFFD that readers see.

A fingerprint is the sum of the hashes modulo 2**128. Unlike exclusive-or, a sum notices a record that is there twice. murmur3 is no
cryptographic hash: fingerprints find accidents, and not somebody who makes records to fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from mmh3 import hash128

from kafkalite.portions import Work
from kafkalite.protocol.record_batches import record_code as code
from kafkalite.protocol.record_batches.checksum import crc32c
from kafkalite.protocol.record_batches.compiled_records import DecodedRecord, decode_plain, encoded_records
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES
from kafkalite.protocol.record_batches.legacy_records import legacy_records
from kafkalite.protocol.record_batches.record_code import IS_COMPILED, readable
from kafkalite.protocol.record_batches.records import CHECKED_FROM, CODEC_MASK, MAGIC, BatchHeader
from kafkalite.timestamps import LARGEST_INT64, LEAST_INT64
from kafkalite.types import Buffer

FINGERPRINT_BYTES: Final = 16
_MODULUS: Final = 1 << 8 * FINGERPRINT_BYTES
_NULL: Final = -1
_NONE: Final = -1
"""The first and last offset where there are no records."""
_RECORDS_PER_UNIT: Final = 16
"""Some ten microseconds."""
_ENCODED_PER_UNIT: Final = 128
"""As long, in compiled code, with values of 100 bytes."""
_BATCHES_PER_UNIT: Final = 8
AT_ONCE_RECORDS: Final = 4096
"""Of batches that are digested without a pause: up to 0.2 ms."""
AT_ONCE_BYTES: Final = 1024 * 1024
"""Of a batch of them."""
_AT_ONCE_BATCHES: Final = 512
"""As their checksums are computed one by one."""

_pack_head = Struct(">qqii").pack
_pack_length = Struct(">i").pack
_join = b"".join


class Times(NamedTuple):
    """A span of time, in ms: timestamps from `since` to before `until`."""

    since: int
    until: int


ALL_TIMES: Final = Times(LEAST_INT64, LARGEST_INT64 + 1)


def times_of(since: int, until: int) -> Times:
    """Return the span of a request, in which the largest number stands for no bound."""
    return Times(since, until + (until == LARGEST_INT64))


class RangeDigest(NamedTuple):
    """The digest of the records of a range; `content_bytes` are those of keys, values, and names and values of headers.

    Without records, the offsets are -1, and the timestamps as they are here.
    """

    records: int = 0
    first_offset: int = _NONE
    last_offset: int = _NONE
    least_timestamp: int = LARGEST_INT64
    largest_timestamp: int = LEAST_INT64
    content_bytes: int = 0
    fingerprint: int = 0

    def is_within(self, times: Times) -> bool:
        """True if the timestamps of all records lie in this span of time."""
        return times.since <= self.least_timestamp and self.largest_timestamp < times.until

    def is_outside(self, times: Times) -> bool:
        """True if no record has a timestamp in this span of time."""
        return self.largest_timestamp < times.since or self.least_timestamp >= times.until

    def __add__(self, other: RangeDigest) -> RangeDigest:  # type: ignore[override]
        """Return the digest of the records of both."""
        if not other.records:
            return self
        if not self.records:
            return other
        return RangeDigest(
            self.records + other.records,
            min(self.first_offset, other.first_offset),
            max(self.last_offset, other.last_offset),
            min(self.least_timestamp, other.least_timestamp),
            max(self.largest_timestamp, other.largest_timestamp),
            self.content_bytes + other.content_bytes,
            (self.fingerprint + other.fingerprint) % _MODULUS,
        )


NO_RECORDS: Final = RangeDigest()


def add_digests(digests: Iterable[RangeDigest]) -> RangeDigest:
    """Return the digest of the records of all of them."""
    some = [each for each in digests if each.records]
    if not some:
        return NO_RECORDS
    counts, first, last, least, largest, contents, fingerprints = zip(*some, strict=True)
    places = min(first), max(last), min(least), max(largest)
    return RangeDigest(sum(counts), *places, sum(contents), sum(fingerprints) % _MODULUS)


def hash_record(
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> int:
    """Return the hash of one record, a number of 128 bits; `timestamp` in ms."""
    key_size, value_size = _NULL if key is None else len(key), _NULL if value is None else len(value)
    parts = [_pack_head(offset, timestamp, key_size, value_size), key or b"", value or b""]
    for name, content in headers:
        encoded = name.encode()
        parts += (_pack_length(len(encoded)), encoded, _pack_length(_NULL if content is None else len(content)))
        parts.append(content or b"")
    return hash128(_join(parts))


def digest_batch(
    buffer: Buffer,
    header: BatchHeader,
    start: int,
    end: int,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    plain: Buffer | None = None,
    times: Times = ALL_TIMES,
) -> Work[RangeDigest]:
    """Return the digest of the records of the batch at `header` that have offsets from `start` to before `end`, within `times`.

    `plain` are its records where they were decompressed before. Whether it is a control batch, or of an aborted transaction, is the
    caller's to know, and so is its CRC. Raises KafkaError where it cannot be read, DecompressedTooLarge for more than the limit.
    """
    if header.magic != MAGIC:
        return (yield from digest_records(legacy_records(buffer, header, limit_bytes), start, end, times))
    plain = encoded_records(buffer, header, limit_bytes) if plain is None else readable(plain)
    found = yield from _digest_encoded(plain, header, start, end, times)
    return found if found is not None else (yield from digest_records(decode_plain(plain, header), start, end, times))


class Run(NamedTuple):
    """Small batches that follow each other from `position` to before `end` of a buffer; of each, the begin and end of the bytes that its
    checksum covers, and the checksum.
    """

    position: int
    end: int
    records: int
    checks: list[tuple[int, int, int]]

    @property
    def last_position(self) -> int:
        """Return where the last batch begins."""
        return self.checks[-1][0] - CHECKED_FROM


def find_runs(buffer: Buffer, within: int, behind_offset: int) -> list[Run]:
    """Return the batches of a buffer that begin before this position and this offset, if `digest_at_once` may digest all of them.

    They are small, and none is compressed, of a transaction or a control batch; the list is empty where one is, or Python has to look.
    """
    found = code.find_runs(
        buffer, 0, len(buffer), within, behind_offset, AT_ONCE_RECORDS, AT_ONCE_BYTES, _AT_ONCE_BATCHES
    )
    return [] if found is None else [Run._make(each) for each in found]


def find_damaged(buffer: Buffer, run: Run) -> int | None:
    """Return the position of the first batch of a run that has another checksum, None without one."""
    view = memoryview(buffer)
    for begin, end, crc in run.checks:
        if crc32c(view[begin:end]) != crc:
            return begin - CHECKED_FROM
    return None


def is_small(header: BatchHeader) -> bool:
    """True for a batch that `digest_at_once` digests: compiled code can read its few records where they lie."""
    is_readable = IS_COMPILED and header.magic == MAGIC and not header.attributes & CODEC_MASK
    return is_readable and 0 < header.records_count <= AT_ONCE_RECORDS


def count_units(batches: int, records: int) -> int:
    """Return the units of work that small batches with so many records are, with their checksums."""
    return 1 + batches // _BATCHES_PER_UNIT + records // _ENCODED_PER_UNIT


def digest_at_once(
    buffer: Buffer, position: int, behind: int, start: int, end: int, times: Times = ALL_TIMES
) -> tuple[int, RangeDigest]:
    """Return the sum of what `digest_batch` returns of the batches from `position` to `behind`, and the position up to which it goes.

    That is before the first batch that compiled code cannot read where it lies.
    """
    bounds = start, end, max(times.since, LEAST_INT64), min(times.until - 1, LARGEST_INT64)
    reached, digest = code.digest_batches(buffer, position, behind, *bounds)
    return reached, RangeDigest._make(digest)


def _digest_encoded(plain: Buffer, header: BatchHeader, start: int, end: int, times: Times) -> Work[RangeDigest | None]:
    """Return the digest of encoded records, None where they have to be decoded for it."""
    since, latest = max(times.since, LEAST_INT64), min(times.until - 1, LARGEST_INT64)
    if not IS_COMPILED or latest < since or not (0 <= start <= end <= LARGEST_INT64):
        return None
    append_time = header.max_timestamp if header.uses_log_append_time else None
    total, position, left = NO_RECORDS, 0, header.records_count
    while left > 0:
        count = min(left, _ENCODED_PER_UNIT)
        some = code.digest_records(
            plain,
            position,
            len(plain),
            count,
            header.base_offset,
            header.base_timestamp,
            append_time,
            start,
            end,
            since,
            latest,
        )
        if some is None:
            return None
        position, digest = some
        total += RangeDigest._make(digest)
        left -= count
        yield
    return total


def digest_records(
    records: Iterable[DecodedRecord], start: int, end: int, times: Times = ALL_TIMES
) -> Work[RangeDigest]:
    """Return the digest of those records that have offsets from `start` to before `end`, and timestamps within `times`."""
    count = content_bytes = total = 0
    first = last = _NONE
    (since, until), least, largest = times, LARGEST_INT64, LEAST_INT64
    following = iter(records)
    # Written out, as a call for each record would be felt; `hash_record` has the same encoding.
    while some := list(islice(following, _RECORDS_PER_UNIT)):
        for record in some:
            offset, timestamp, key, value = record.offset, record.timestamp, record.key, record.value
            if not (start <= offset < end and since <= timestamp < until):
                continue
            if record.headers:
                content_bytes += sum(len(name.encode()) + len(content or b"") for name, content in record.headers)
                total += hash_record(offset, timestamp, key, value, record.headers)
                content_bytes += len(key or b"") + len(value or b"")
            else:
                key_size = value_size = _NULL
                if key is None:
                    key = b""
                else:
                    content_bytes += (key_size := len(key))
                if value is None:
                    value = b""
                else:
                    content_bytes += (value_size := len(value))
                total += hash128(_join((_pack_head(offset, timestamp, key_size, value_size), key, value)))
            count += 1
            if timestamp < least:
                least = timestamp
            if timestamp > largest:
                largest = timestamp
            if offset > last:
                last = offset
            if first < 0 or offset < first:
                first = offset
        yield
    if not count:
        return NO_RECORDS
    return RangeDigest(count, first, last, least, largest, content_bytes, total % _MODULUS)
