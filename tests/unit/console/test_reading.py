"""Pages of records forwards and backwards, searches, and what comes live, against a scripted cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from kafkalite.client import Consumer
from kafkalite.client.errors import ClientError
from kafkalite.client.record_codec import BatchWriter
from kafkalite.console import reading, transaction_marks
from kafkalite.console.events import Event
from kafkalite.console.parameters import BadRequestError, Parameters
from kafkalite.errors import ErrorCode
from kafkalite.protocol.record_batches.records import build_marker
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def write(cluster: FakeCluster, place: TopicPartition, *records: tuple[int, bytes]) -> None:
    """A batch of (timestamp, value)."""
    writer = BatchWriter(1 << 20)
    for timestamp, value in records:
        writer.append(timestamp, b"k", value, [("h", b"header of it")])
    cluster.append(place, writer.build(0))


def filled(count: int = 20) -> FakeCluster:
    """Records of t by turns in two partitions, one each millisecond; three in a batch."""
    cluster = FakeCluster({"t": 2})
    for place, first in ((T0, 0), (T1, 1)):
        times = list(range(first, count, 2))
        for begin in range(0, len(times), 3):
            write(cluster, place, *((1000 + each, f"value {each}".encode()) for each in times[begin : begin + 3]))
    return cluster


def run(cluster: FakeCluster, scenario: Callable[[reading.Source], Awaitable[None]]) -> None:
    @asynccontextmanager
    async def opened(**more: Any) -> AsyncIterator[Consumer]:
        options: dict[str, Any] = {"fetch_max_wait_ms": 20, "auto_offset_reset": "earliest", **more}
        async with Consumer(bootstrap_servers="fake:9001", opener=cluster.open, **options) as found:
            yield found

    async def in_time() -> None:
        async with asyncio.timeout(60):
            await scenario(reading.Source(opened))

    virtual_time.run(in_time())


def values(page: dict[str, Any]) -> list[str]:
    return [row["value"]["text"].removeprefix("value ") for row in page["rows"]]


async def pages(source: reading.Source, link: str, rows: int, **first: Any) -> list[list[str]]:
    """The first page and all that follow by `link`."""
    found = [await reading.page(source, "t", Parameters({"rows": rows, **first}))]
    parameter = {"older": "before", "newer": "after"}[link]
    while found[-1][link]:
        assert len(found) < 50
        found.append(await reading.page(source, "t", Parameters({"rows": rows, parameter: found[-1][link]})))
    return [values(each) for each in found]


def test_older_pages_bring_every_record_once_newest_first() -> None:
    async def scenario(source: reading.Source) -> None:
        found = await pages(source, "older", 6)
        assert [each for page in found for each in page] == [str(each) for each in range(19, -1, -1)]
        assert len(found[0]) == 6

    run(filled(), scenario)


def test_newer_pages_bring_every_record_once_oldest_first() -> None:
    async def scenario(source: reading.Source) -> None:
        found = await pages(source, "newer", 6, start="earliest")
        assert [each for page in found for each in page] == [str(each) for each in range(20)]

    run(filled(), scenario)


def test_pages_begin_at_an_offset_a_time_and_in_some_partitions() -> None:
    async def scenario(source: reading.Source) -> None:
        def page(**asked: Any) -> Awaitable[dict[str, Any]]:
            return reading.page(source, "t", Parameters({"rows": 4, **asked}))

        assert values(await page(start="offset", at="8", partitions="0")) == ["16", "18"]
        assert values(await page(start="time", at="1012", partitions="0")) == ["12", "14", "16", "18"]
        assert values(await page(start="time", at="99999")) == []
        assert values(await page(partitions="1")) == ["19", "17", "15", "13"]
        assert values(await page(start="offset", at="10000")) == [], "what is not there yet is the end"
        with pytest.raises(BadRequestError, match="no partition 2"):
            await page(partitions="0,2")

    run(filled(), scenario)


def test_an_empty_topic_has_an_empty_page() -> None:
    async def scenario(source: reading.Source) -> None:
        found = await reading.page(source, "t", Parameters({}))
        assert (found["rows"], found["older"], found["newer"]) == ([], None, None)

    run(FakeCluster({"t": 2}), scenario)


def test_one_record_is_read_whole_and_without_loss() -> None:
    cluster = FakeCluster({"t": 2})
    write(cluster, T0, (5, b"\xff" + b"x" * 10_000))

    async def scenario(source: reading.Source) -> None:
        found = await reading.one_record(source, T0, Parameters({"offset": "0"}))
        assert found["raw"]["value"]["base64"] and not found["value"]["is_cut"]
        assert found["headers"][0][1]["text"] == "header of it"
        with pytest.raises(BadRequestError, match="no record"):
            await reading.one_record(source, T0, Parameters({"offset": "1"}))

    run(cluster, scenario)


def transactional(cluster: FakeCluster, producer_id: int, *values: str, commit: bool | None = None) -> None:
    """A batch of a transaction in partition 0, and the marker that ends it if it was ended."""
    writer = BatchWriter(1 << 20, is_transactional=True)
    for value in values:
        writer.append(1000, b"k", value.encode(), [])
    begin = cluster.end(T0)
    cluster.append(T0, writer.build(0, producer_id, 0, 0))
    if commit is not None:
        marker = build_marker(
            commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=1000
        )
        cluster.append(T0, marker)
    if commit is False:
        cluster.aborted[T0].append((producer_id, begin))


def test_records_of_aborted_and_open_transactions_are_marked() -> None:
    cluster = FakeCluster({"t": 2})
    write(cluster, T0, (1000, b"plain"))
    transactional(cluster, 7, "aborted", "aborted", commit=False)
    transactional(cluster, 8, "committed", commit=True)
    cluster.last_stable[T0] = cluster.end(T0)
    transactional(cluster, 9, "open")
    write(cluster, T0, (1000, b"behind it"))
    write(cluster, T1, (1000, b"elsewhere"))

    async def scenario(source: reading.Source) -> None:
        def marks(page: dict[str, Any]) -> dict[int, tuple[str, str | None]]:
            assert page["unmarked_because"] is None
            return {
                row["offset"]: (row["value"]["text"], row["transaction"])
                for row in page["rows"]
                if row["partition"] == 0
            }

        begun_s = asyncio.get_running_loop().time()
        found = await reading.page(source, "t", Parameters({}))
        assert asyncio.get_running_loop().time() - begun_s < 0.3
        expected = {
            0: ("plain", None),
            1: ("aborted", "aborted"),
            2: ("aborted", "aborted"),
            4: ("committed", None),
            6: ("open", "open"),
            7: ("behind it", "open"),
        }
        assert marks(found) == expected
        assert [row["transaction"] for row in found["rows"] if row["partition"] == 1] == [None]
        middle = await reading.page(
            source, "t", Parameters({"start": "offset", "at": "2", "partitions": "0", "rows": 2})
        )
        assert marks(middle) == {2: ("aborted", "aborted"), 4: ("committed", None)}
        assert (await reading.one_record(source, T0, Parameters({"offset": "1"})))["transaction"] == "aborted"
        assert (await reading.one_record(source, T0, Parameters({"offset": "4"})))["transaction"] is None
        hits = [
            row for kind, row in await gathered(reading.search(source, "t", Parameters({"text": "o"}))) if kind == "hit"
        ]
        found_marks = {row["offset"]: row["transaction"] for row in hits if row["partition"] == 0}
        assert found_marks == {offset: mark for offset, (_, mark) in expected.items()}

    run(cluster, scenario)


def test_a_page_that_could_not_be_marked_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ClientError(ErrorCode.REQUEST_TIMED_OUT, "broker 2 hangs")

    async def scenario(source: reading.Source) -> None:
        monkeypatch.setattr(transaction_marks, "transaction_marks", fail)
        found = await reading.page(source, "t", Parameters({"rows": 2}))
        assert "broker 2 hangs" in found["unmarked_because"]
        assert [row["transaction"] for row in found["rows"]] == [None, None]

    run(filled(), scenario)


async def gathered(events: AsyncGenerator[Event], most: int = 1000) -> list[Event]:
    found: list[Event] = []
    async with aclosing(events) as some:
        async for each in some:
            found.append(each)
            if len(found) >= most:
                break
    return found


def test_a_search_finds_what_is_in_values_keys_and_headers() -> None:
    async def scenario(source: reading.Source) -> None:
        async def hits(**asked: Any) -> tuple[list[str], dict[str, Any]]:
            *found, (name, end) = await gathered(
                reading.search(source, "t", Parameters({"start": "earliest", **asked}))
            )
            assert name == "done"
            return sorted(data["value"]["text"] for event, data in found if event == "hit"), end

        assert (await hits(text="value 1"))[0] == sorted(["value 1", *(f"value {each}" for each in range(10, 20))])
        assert (await hits(text="VALUE 7"))[0] == ["value 7"]
        found, end = await hits(text="VALUE 7", case="1")
        assert found == [] and end["scanned"] == 20 and end["share"] == 1.0 and end["is_complete"]
        assert len((await hits(text="header of"))[0]) == 20
        with pytest.raises(BadRequestError, match="nothing to look for"):
            await hits(text="")

    run(filled(), scenario)


def test_others_are_served_while_a_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two thousand records in each turn of the loop a page of records waited for half a second."""
    count, looked_at, longest = 4 * reading.SEARCHED_AT_ONCE, 0, 0

    def finds(_: reading.Search, __: object) -> bool:
        nonlocal looked_at
        looked_at += 1
        return False

    async def others() -> None:
        nonlocal looked_at, longest
        while True:
            longest, looked_at = max(longest, looked_at), 0
            await asyncio.sleep(0)

    async def scenario(source: reading.Source) -> None:
        task = asyncio.ensure_future(others())
        *_, (_, end) = await gathered(reading.search(source, "t", Parameters({"text": "x", "start": "earliest"})))
        task.cancel()
        assert end["scanned"] == count and 0 < longest <= reading.SEARCHED_AT_ONCE

    monkeypatch.setattr(reading.Search, "finds", finds)
    cluster = FakeCluster({"t": 2})
    write(cluster, T0, *((1000, b"value") for _ in range(count)))
    run(cluster, scenario)


def test_a_search_that_found_enough_says_where_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_HITS", 3)

    async def scenario(source: reading.Source) -> None:
        *found, (_, end) = await gathered(
            reading.search(source, "t", Parameters({"text": "value", "start": "earliest"}))
        )
        assert len([event for event, _ in found if event == "hit"]) == 3 and not end["is_complete"]
        rest = await gathered(reading.search(source, "t", Parameters({"text": "value 19", "after": end["next"]})))
        assert [data["value"]["text"] for event, data in rest if event == "hit"] == ["value 19"]

    run(filled(), scenario)


def test_what_comes_is_followed_and_too_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_LIVE_ROWS", 2)
    cluster = filled()

    async def scenario(source: reading.Source) -> None:
        async with aclosing(reading.follow(source, "t", Parameters({}))) as events:
            assert (await anext(events))[1] == {"rows": [], "skipped": 0}
            write(cluster, T0, *((2000 + each, f"new {each}".encode()) for each in range(5)))
            _, told = await anext(events)
            assert [row["value"]["text"] for row in told["rows"]] == ["new 3", "new 4"] and told["skipped"] == 3

    run(cluster, scenario)
