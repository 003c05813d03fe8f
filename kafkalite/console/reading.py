"""Records of a topic: pages forwards and backwards over some or all of its partitions, a search, and new records live.

A page takes at most its rows from each partition and merges them by time. Where a page begins and ends is said by offsets for each
partition, from which the next and the previous one go on: nothing is kept between requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkalite.administration.record_lines import to_dict
from kafkalite.console.decoding import FORMATS, SHORT_BYTES, WHOLE_BYTES, decode_text
from kafkalite.console.parameters import BadRequestError, Parameters
from kafkalite.console.record_ranges import POLL_MS, OpenConsumer, read_ranges
from kafkalite.console.transaction_marks import Marking, Marks
from kafkalite.timestamps import timestamp_text
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Consumer, ConsumerRecord
    from kafkalite.console.events import Event
    from kafkalite.console.schemas.registry import SchemaRegistry

Positions = dict[TopicPartition, int]

MOST_ROWS: Final = 200
_MOST_READ: Final = 4_000
"""Records that are read for one page, over all partitions."""
_BATCH: Final = 2_000
SEARCHED_AT_ONCE: Final = 500
"""Records that are looked at before others are served: a millisecond. A page of records takes some twenty turns of the loop, and would wait
in each for a search that goes on.
"""
MOST_HITS: Final = 200
MOST_SCANNED: Final = 5_000_000
"""Records that one search scans before it stops; it can be continued."""
_PROGRESS_S: Final = 0.25
_LIVE_ROWS: Final = 200
"""Records that one live update shows; the rest is counted."""
_RENDERED_AT_ONCE: Final = 10
"""Records that are decoded before other work of the event loop."""
_LIVE_PAUSE_S: Final = 0.25
_HEARTBEAT_MS: Final = 10_000.0


class Rendering:
    """Renders records in a format, with schemas of a registry if there is one."""

    def __init__(self, format_: str, registry: SchemaRegistry | None) -> None:
        self._format, self._registry = format_, registry

    async def rows(self, records: Sequence[ConsumerRecord], limit_bytes: int = SHORT_BYTES) -> list[dict[str, Any]]:
        """Return records as rows."""
        if self._registry is not None:
            await self._registry.load(data for record in records for data in (record.key, record.value))
        rows = []
        for record in records:
            rows.append(self._row(record, limit_bytes))
            if len(rows) % _RENDERED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return rows

    def _row(self, record: ConsumerRecord, limit_bytes: int) -> dict[str, Any]:
        by_schema = self._registry.decode_value if self._registry is not None else None
        key_format = "auto" if self._format == "json" else self._format
        return {
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "time": timestamp_text(record.timestamp),
            "timestamp_type": "LogAppendTime" if record.timestamp_type else "CreateTime",
            "key": decode_text(record.key, key_format, limit_bytes, by_schema),
            "value": decode_text(record.value, self._format, limit_bytes, by_schema),
            "headers": [[name, decode_text(content, "auto", limit_bytes)] for name, content in record.headers],
        }


@dataclass(frozen=True, slots=True)
class Source:
    """The consumer of the records, and the registry of their schemas."""

    open_consumer: OpenConsumer
    registry: SchemaRegistry | None = None

    def rendering(self, asked: Parameters) -> Rendering:
        """Return the rendering that a request asks for. Raises BadRequestError."""
        return Rendering(asked.one_of("format", FORMATS, "auto"), self.registry)

    async def marked_rows(
        self, rendering: Rendering, records: Sequence[ConsumerRecord], limit_bytes: int = SHORT_BYTES
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return rows of records with their transactions' marks, and why these are missing if they are."""
        async with Marking(self.open_consumer) as marking:
            marks, problem = await marking.marks(records)
        return _add_marks(await rendering.rows(records, limit_bytes), marks), problem


async def one_record(source: Source, place: TopicPartition, asked: Parameters) -> dict[str, Any]:
    """Return the record at `offset`, longer than in a list, and in `raw` without loss, so that it can be produced again.

    `line` is `raw` as text: JavaScript's numbers do not hold every timestamp.
    """
    offset, rendering = asked.number("offset", 0), source.rendering(asked)
    async with source.open_consumer() as consumer:
        end = (await consumer.end_offsets([place]))[place]
        found = await read_ranges(consumer, {place: (offset, min(offset + 1, end))}, 1)
    for record in found[place]:
        (row,), _ = await source.marked_rows(rendering, [record], WHOLE_BYTES)
        raw = to_dict(record)
        return {**row, "raw": raw, "line": json.dumps(raw, ensure_ascii=False)}
    raise BadRequestError(f"{place} has no record with offset {offset}")


async def page(source: Source, topic: str, asked: Parameters) -> dict[str, Any]:
    """Return a page of records. `start` is earliest, latest, offset or time (with `at`), or `after` or `before` has positions."""
    rendering = source.rendering(asked)
    rows = asked.number("rows", 50, 1, MOST_ROWS)
    async with source.open_consumer() as consumer:
        places = await _places(consumer, topic, asked.partitions("partitions"))
        first, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
        before = asked.positions("before", topic)
        if before is None and asked.text("start") in ("", "latest") and not asked.has("after"):
            before = ends
        if before is not None:
            bounded = {each: min(max(before.get(each, first[each]), first[each]), ends[each]) for each in places}
            found, older, newer = await _backwards(consumer, bounded, first, rows)
        else:
            begin = await _start(consumer, topic, places, asked, first, ends)
            found, older, newer = await _forwards(consumer, begin, ends, rows)
    marked, unmarked_because = await source.marked_rows(rendering, found)
    return {
        "rows": marked,
        "unmarked_because": unmarked_because,
        "older": _positions_text(older) if any(older[each] > first[each] for each in places) else None,
        "newer": _positions_text(newer) if any(newer[each] < ends[each] for each in places) else None,
        "end": _positions_text(ends),
        "partitions": {str(each.partition): {"first": first[each], "end": ends[each]} for each in places},
    }


def _add_marks(rows: list[dict[str, Any]], marks: Marks) -> list[dict[str, Any]]:
    """Return rows with `transaction`: "aborted", "open", or None."""
    return [{**row, "transaction": marks.get((row["partition"], row["offset"]))} for row in rows]


async def _places(consumer: Consumer, topic: str, wanted: Sequence[int] | None) -> list[TopicPartition]:
    known = await consumer.partitions_for_topic(topic)
    if unknown := set(wanted or ()) - known:
        raise BadRequestError(f"{topic} has no partition {min(unknown)}")
    return [TopicPartition(topic, number) for number in sorted(wanted or known)]


async def _start(
    consumer: Consumer,
    topic: str,
    places: list[TopicPartition],
    asked: Parameters,
    first: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Positions:
    """Return the first positions, within the offsets that exist."""
    after = asked.positions("after", topic)
    match asked.one_of("start", ("", "earliest", "latest", "offset", "time"), ""):
        case _ if after is not None:
            begin = {each: after.get(each, ends[each]) for each in places}
        case "offset":
            begin = dict.fromkeys(places, asked.number("at", 0))
        case "time":
            found = await consumer.offsets_for_times(dict.fromkeys(places, asked.number("at", 0)))
            begin = {each: ends[each] if (answer := found[each]) is None else answer.offset for each in places}
        case "latest":
            begin = dict(ends)
        case _:
            begin = dict(first)
    return {each: min(max(begin[each], first[each]), ends[each]) for each in places}


def _positions_text(positions: Mapping[TopicPartition, int]) -> str:
    return ",".join(f"{each.partition}:{offset}" for each, offset in sorted(positions.items()))


Found = tuple[list["ConsumerRecord"], Positions, Positions]
"""Records, and the positions of older and newer ones."""


async def _forwards(consumer: Consumer, begin: Positions, ends: Mapping[TopicPartition, int], rows: int) -> Found:
    """Return the oldest records from `begin` on, the oldest first."""
    quota = _quota(rows, len(begin))
    found = await read_ranges(consumer, {each: (begin[each], ends[each]) for each in begin}, quota)
    merged = sorted((record for some in found.values() for record in some), key=_by_time)[:rows]
    newer = dict(begin)
    for record in merged:
        newer[TopicPartition(record.topic, record.partition)] = record.offset + 1
    for each, some in found.items():
        if len(some) < quota and (not some or newer[each] > some[-1].offset):
            newer[each] = ends[each]  # there is nothing more: markers and gaps of compaction at most
    return merged, begin, newer


async def _backwards(consumer: Consumer, before: Positions, first: Mapping[TopicPartition, int], rows: int) -> Found:
    """Return the newest records before some positions, the newest first."""
    quota = _quota(rows, len(before))
    begin = {each: max(first[each], end - quota) for each, end in before.items()}
    found = await read_ranges(consumer, {each: (begin[each], end) for each, end in before.items()}, quota)
    merged = sorted((record for some in found.values() for record in some), key=_by_time, reverse=True)[:rows]
    older = dict(before)
    for record in merged:
        older[TopicPartition(record.topic, record.partition)] = record.offset
    for each, some in found.items():
        if not some or older[each] <= some[0].offset:
            older[each] = begin[each]  # all of it is shown
    return merged, older, before


def _by_time(record: ConsumerRecord) -> tuple[int, int, int]:
    return (record.timestamp, record.offset, record.partition)


def _quota(rows: int, partitions: int) -> int:
    """Return the number of records to read from each partition."""
    return max(1, min(rows, _MOST_READ // max(1, partitions)))


class Search:
    """Finds bytes in keys, values and headers."""

    def __init__(self, text: str, is_case_sensitive: bool) -> None:
        if not text:
            raise BadRequestError("there is nothing to look for")
        self._wanted = text.encode() if is_case_sensitive else text.lower().encode()
        self._prepare: Callable[[bytes], bytes] = bytes if is_case_sensitive else _lower

    def finds(self, record: ConsumerRecord) -> bool:
        wanted, prepare = self._wanted, self._prepare
        for data in (record.value, record.key):
            if data is not None and wanted in prepare(data):
                return True
        return any(
            wanted in prepare(name.encode()) or (content is not None and wanted in prepare(content))
            for name, content in record.headers
        )


def _lower(data: bytes) -> bytes:
    """Return bytes in lower case, as text where they are text: `bytes.lower` knows ASCII only."""
    return (
        data.lower() if data.isascii() else data.decode("utf-8", "surrogateescape").lower().encode("utf-8", "replace")
    )


async def search(source: Source, topic: str, asked: Parameters) -> AsyncGenerator[Event]:
    """Yield `hit` for each record that matches, `progress` meanwhile, and `done` at the end or at the limit. Closing it ends the work.

    Records that arrive after its start are not searched.
    """
    wanted = Search(asked.text("text", longest=1000), asked.flag("case"))
    rendering = source.rendering(asked)
    hits = scanned = scanned_bytes = 0
    loop = asyncio.get_running_loop()
    async with source.open_consumer() as consumer, Marking(source.open_consumer) as marking:
        places = await _places(consumer, topic, asked.partitions("partitions"))
        first, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
        begin = await _start(consumer, topic, places, asked, first, ends)
        position = dict(begin)
        left = {each for each in places if begin[each] < ends[each]}
        total = sum(ends[each] - begin[each] for each in left)
        consumer.assign(sorted(left))
        for each in left:
            consumer.seek(each, begin[each])

        def state() -> dict[str, Any]:
            passed = sum(min(position[each], ends[each]) - begin[each] for each in places)
            return {
                "scanned": scanned,
                "bytes": scanned_bytes,
                "hits": hits,
                "share": passed / total if total else 1.0,
                "next": _positions_text(position),
            }

        told_s = loop.time()
        while left and hits < MOST_HITS and scanned < MOST_SCANNED:
            found = await consumer.getmany(*left, timeout_ms=POLL_MS, max_records=SEARCHED_AT_ONCE)
            matching = []
            for place, records in found.items():
                for record in records:
                    if record.offset >= ends[place] or hits >= MOST_HITS:
                        break
                    scanned += 1
                    scanned_bytes += len(record.value or b"") + len(record.key or b"")
                    position[place] = record.offset + 1
                    if wanted.finds(record):
                        hits += 1
                        matching.append(record)
            for row in _add_marks(await rendering.rows(matching), (await marking.marks(matching))[0]):
                yield "hit", row
            for each in sorted(left):
                if (reached := await consumer.position(each)) >= ends[each]:
                    if hits < MOST_HITS:
                        position[each] = reached
                        left.discard(each)
                    consumer.pause(each)
            if loop.time() - told_s >= _PROGRESS_S:
                told_s = loop.time()
                yield "progress", state()
            await asyncio.sleep(0)
        yield "done", {**state(), "is_complete": not left}


async def follow(source: Source, topic: str, asked: Parameters) -> AsyncGenerator[Event]:
    """Yield `records` as they arrive, from the end or from `after` on: the newest of each poll, and the number of omitted ones."""
    rendering = source.rendering(asked)
    async with source.open_consumer() as consumer:
        places = await _places(consumer, topic, asked.partitions("partitions"))
        after = asked.positions("after", topic) or await consumer.end_offsets(places)
        consumer.assign(places)
        for each in places:
            consumer.seek(each, after.get(each, 0))
        yield "records", {"rows": [], "skipped": 0}
        while True:
            batches: Iterable[Sequence[ConsumerRecord]] = (
                await consumer.getmany(timeout_ms=_HEARTBEAT_MS, max_records=_BATCH)
            ).values()
            found = sorted((record for some in batches for record in some), key=_by_time)
            newest = found[-_LIVE_ROWS:]
            yield (
                "records",
                {"rows": await rendering.rows(newest), "skipped": len(found) - len(newest)},
            )
            await asyncio.sleep(_LIVE_PAUSE_S)
