"""Digests of the committed records of partitions led here: one range after the other, some MiB of it, and of these a piece at a time.

A range is read for one request at a time, so that the memory of many requests is that of one piece, 1 MiB or one batch. A request reads
`BYTES_AT_ONCE`, and its answer says how far it came. What is small is digested in portions; a batch that is large, or becomes large when
it is decompressed, in another thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import AT_ONCE_UNITS, Portions, Work, in_one_go
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, DecompressedTooLarge
from kafkalite.protocol.record_batches.record_digest import (
    ALL_TIMES,
    AT_ONCE_BYTES,
    AT_ONCE_RECORDS,
    RangeDigest,
    Times,
    count_units,
    digest_at_once,
    digest_batch,
    find_damaged,
    is_small,
)
from kafkalite.protocol.record_batches.records import MAGIC, BatchHeader, has_valid_crc
from kafkalite.storage.cold_reads import in_memory
from kafkalite.storage.log.range_scan import DigestCache, Piece, RangeScan, SomeDigests
from kafkalite.types import Buffer

if TYPE_CHECKING:
    from kafkalite.broker.replication.partition import Partition

BYTES_AT_ONCE: Final = 8 * 1024 * 1024
"""What a request reads, up to the end of a block: some 5 ms of computing for records of 100 B."""
_SEGMENT_BYTES: Final = BYTES_AT_ONCE // 16
"""What a segment counts for whose kept digests are enough."""
_OLD_BYTES_AT_ONCE: Final = 128 * 1024
"""Of messages of older formats, which are read in Python."""


class RangeDigests:
    """Reads ranges for their digests, and keeps those of the segments that were read last."""

    def __init__(self, bytes_at_once: int = BYTES_AT_ONCE) -> None:
        self._bytes_at_once = bytes_at_once
        self._cache = DigestCache()
        self._turn = asyncio.Lock()

    async def digest(
        self,
        find_partition: Callable[[], Partition],
        start: int,
        end: int,
        portions: Portions,
        *,
        times: Times = ALL_TIMES,
        fresh: bool = False,
    ) -> tuple[RangeDigest, int]:
        """Return the digest of the committed records from `start` on with timestamps within `times`, and the offset up to which it goes:
        `end`, the last stable offset, or as far as one request comes.

        `find_partition` returns the partition and raises KafkaError unless it is led here; it is called before each use. A `fresh` digest
        is made of the records alone. Raises KafkaError OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, INVALID_RECORD, KAFKA_STORAGE_ERROR.
        """
        async with self._turn:
            partition = find_partition()
            log, epoch = partition.log, partition.leader_epoch
            _check_bounds(partition, start, end)
            scan = RangeScan(log, start, min(end, log.last_stable_offset), self._cache, times=times, fresh=fresh)
            left, pace = self._bytes_at_once, portions.pace()
            while not scan.is_done and (left > 0 or not scan.is_between_blocks):
                piece = await in_memory(log, scan.next_piece)
                if piece is None:
                    left -= _SEGMENT_BYTES
                    await portions.turn()
                else:
                    await pace.unit(AT_ONCE_UNITS)  # so much of a piece is done without waiting
                    left -= piece.size_bytes
                    digests = await _digest_piece(piece, scan, portions)
                partition = find_partition()
                partition.require_leader(epoch)
                if partition.log is not log:
                    break  # it was moved to another directory; what is known already is right
                if piece is not None:
                    scan.add(piece, digests)
                piece = None  # its memory serves for the next one
            scan.finish()
            return scan.digest, scan.offset


def _check_bounds(partition: Partition, start: int, end: int) -> None:
    """Raise KafkaError unless this can be a range of the partition's log."""
    log = partition.log
    if end < start:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a range from offset {start} to {end} ends before it begins")
    if not log.log_start_offset <= start <= log.log_end_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition.topic_partition} has offsets {log.log_start_offset} to {log.log_end_offset}, not {start}",
        )


async def _digest_piece(piece: Piece, scan: RangeScan, portions: Portions) -> list[SomeDigests]:
    """Return the digests of all batches of a piece, one by one or some together."""
    wanted = scan.offset, scan.end, scan.times
    if piece.runs:
        return await portions.finish(_digest_runs(piece, *wanted))
    found: list[SomeDigests] = []
    number = 0
    while number < len(piece.headers):
        number, some = await portions.finish(_digest_small(piece, number, *wanted))
        found += some
        if number < len(piece.headers):
            large = piece.headers[number]
            found.append(await portions.in_thread(partial(_digest_large, piece.data, large, *wanted)))
            number += 1
    return found


def _digest_runs(piece: Piece, start: int, end: int, times: Times) -> Work[list[SomeDigests]]:
    """Return the digests of a piece of small batches only."""
    data = piece.data
    found: list[SomeDigests] = []
    for run in piece.runs:
        for _ in range(count_units(len(run.checks), run.records)):
            yield
        damaged = find_damaged(data, run)
        if damaged is not None:
            raise _wrong_crc(BatchHeader.read(data, damaged))
        position = run.position
        while position < run.end:
            reached, some = _digest_at_once(data, position, run.end, start, end, times)
            if reached == position:
                header = BatchHeader.read(data, position)
                some, reached = (yield from _digest_both(data, header, start, end, times, AT_ONCE_BYTES)), header.end
            found.append(some)
            position = reached
    return found


def _digest_at_once(
    data: Buffer, position: int, behind: int, start: int, end: int, times: Times
) -> tuple[int, SomeDigests]:
    """Return the position up to which compiled code reads the batches where they lie, and their digests."""
    reached, whole = digest_at_once(data, position, behind, start, end)
    is_parted = reached > position and _is_parted(whole, times)
    return reached, (whole, digest_at_once(data, position, reached, start, end, times)[1] if is_parted else None)


def _digest_small(piece: Piece, number: int, start: int, end: int, times: Times) -> Work[tuple[int, list[SomeDigests]]]:
    """Return the digests of the batches from the one of this number to before the next that is large, and the number of that."""
    data, headers = piece.data, piece.headers
    found: list[SomeDigests] = []
    run_end = number  # what lies before it was looked at, and has right checksums
    while number < len(headers):
        yield
        header = headers[number]
        if not piece.is_committed[number]:
            number += 1
            continue
        limit = AT_ONCE_BYTES if header.magic == MAGIC else _OLD_BYTES_AT_ONCE
        if header.size > limit:
            break
        if number >= run_end:
            run_end, units = _find_run(piece, number)
            for each in range(number, max(run_end, number + 1)):
                _check_crc(data, headers[each])
            for _ in range(units - 1):
                yield
        if number < run_end:
            reached, some = _digest_at_once(data, header.position, headers[run_end - 1].end, start, end, times)
            if reached > header.position:
                found.append(some)
                while number < run_end and headers[number].position < reached:
                    number += 1
                continue
        try:
            found.append((yield from _digest_both(data, header, start, end, times, limit)))
        except DecompressedTooLarge:
            break
        number += 1
    return number, found


def _find_run(piece: Piece, first: int) -> tuple[int, int]:
    """Return the number behind the batches that can be digested at once from `first` on, and the units of work that they are."""
    records, number = 0, first
    while number < len(piece.headers) and piece.is_committed[number]:
        header = piece.headers[number]
        is_long = header.batch_length > AT_ONCE_BYTES or records + header.records_count > AT_ONCE_RECORDS
        if is_long or not is_small(header):
            break
        records += header.records_count
        number += 1
    return number, count_units(number - first, records)


def _digest_large(data: Buffer, header: BatchHeader, start: int, end: int, times: Times) -> SomeDigests:
    _check_crc(data, header)
    return in_one_go(_digest_both(data, header, start, end, times, DECOMPRESSED_LIMIT_BYTES))


def _digest_both(
    data: Buffer, header: BatchHeader, start: int, end: int, times: Times, limit: int
) -> Work[SomeDigests]:
    """Return the digest of a batch and, where its records lie on both sides of a bound of `times`, of those that are within."""
    whole = yield from digest_batch(data, header, start, end, limit)
    if not _is_parted(whole, times):
        return whole, None
    return whole, (yield from digest_batch(data, header, start, end, limit, times=times))


def _is_parted(digest: RangeDigest, times: Times) -> bool:
    """True if there are records on both sides of a bound of `times`."""
    return not (digest.is_within(times) or digest.is_outside(times))


def _check_crc(data: Buffer, header: BatchHeader) -> None:
    if not has_valid_crc(data, header):
        raise _wrong_crc(header)


def _wrong_crc(header: BatchHeader) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} has a wrong CRC")
