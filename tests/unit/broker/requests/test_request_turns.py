"""What many clients ask at once: the loop turns in between, small requests do not wait, and no host keeps the others out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.broker.fetch import partition_reader
from kafkalite.broker.fetch.delayed_fetch import DelayedFetch
from kafkalite.broker.fetch.partition_reader import FetchParams
from kafkalite.broker.handlers import SERVED
from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.broker.requests.request_turns import LONG_WORKS, TURN_UNITS, Line, RequestTurns
from kafkalite.net.frames import request_frame
from kafkalite.portions import AT_ONCE_UNITS, PORTION_UNITS, Portions, Work
from kafkalite.protocol import codec, messages
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.loop_turns import measured_turns
from tests.unit.broker.memory_parts import FakeConnection, MemoryParts, leader
from tests.unit.broker.replication.test_partition_acks import append, lead

CLIENTS = 30
TOPICS = 2100


def played(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario()

    virtual_time.run(run())


def frame_of(request: Any, version: int) -> memoryview:
    return memoryview(b"".join(request_frame(request.API, version, 1, "me", codec.encode_request(request, version))))[
        4:
    ]


def fetch_of(topics: int, max_wait_ms: int = 0) -> memoryview:
    """Of so many topics without partitions and without a name."""
    m = messages.fetch_request
    named = [m.FetchTopic(topic="", partitions=[])] * topics
    return frame_of(m.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=named), 12)


def versions() -> memoryview:
    return frame_of(messages.api_versions_request.ApiVersionsRequest(), 0)


def test_a_small_request_does_not_wait_for_all_the_long_ones() -> None:
    async def scenario() -> None:
        dispatcher = Dispatcher(MemoryParts(leader(end=5)), SERVED)
        frame = fetch_of(TOPICS)
        with measured_turns() as turns:
            await asyncio.sleep(0)
            answers = [dispatcher.handle(frame, FakeConnection()) for _ in range(CLIENTS)]
            assert dispatcher.request_turns.waits >= CLIENTS - 3
            assert isinstance(dispatcher.handle(versions(), FakeConnection()), list)
            while not all(each.done() for each in answers):  # type: ignore[union-attr]
                assert dispatcher.portions.works <= LONG_WORKS + 1
                await asyncio.sleep(0)
        assert turns.longest < turns.calls / 4, turns

    played(scenario)


def test_hosts_have_their_turn_however_many_connections_they_have() -> None:
    async def scenario() -> None:
        turns, begun = RequestTurns(Portions()), []

        def ask(host: str, closed: bool = False) -> None:
            turn = turns.begin(Line.SHORT, TURN_UNITS, FakeConnection(host, closed))
            assert turn is not None
            turn.add_done_callback(lambda _: begun.append(host + " has left" * closed))

        assert turns.begin(Line.SHORT, 1, FakeConnection()) is None
        turns.charge(2 * TURN_UNITS)
        await asyncio.sleep(0)
        assert turns.begin(Line.SHORT, 1, FakeConnection()) is None, "the loop has turned"
        turns.charge(2 * TURN_UNITS)
        for host in ["many"] * 5 + ["other"]:
            ask(host)
        ask("many", closed=True)
        ask("third")
        await virtual_time.settle()
        assert begun == ["many", "other", "third", "many", "many", "many", "many", "many has left"]

    played(scenario)


def test_lines_do_not_wait_for_each_other() -> None:
    async def scenario() -> None:
        portions = Portions()
        turns, begun = RequestTurns(portions), []
        works = [portions.run(_long(100)) for _ in range(LONG_WORKS)]
        waiting = turns.begin(Line.LONG, 1, FakeConnection())
        assert waiting is not None
        for line in (Line.PRODUCE, Line.SHORT):
            assert turns.begin(line, 1, FakeConnection()) is None, "only long ones wait for long works"
        waiting.add_done_callback(lambda _: begun.append(portions.works))
        await asyncio.gather(*works, waiting)  # type: ignore[arg-type]
        assert begun == [LONG_WORKS - 1]

    played(scenario)


def test_a_produce_that_waits_is_not_overtaken_and_keeps_its_bytes() -> None:
    async def scenario() -> None:
        seen: list[str] = []
        p = messages.produce_request

        def produce(parts: Any, request: Any, context: Any) -> Any:
            seen.append(request.topic_data[0].name)
            return messages.produce_response.ProduceResponse()

        served = [each for each in SERVED if each.api.name == "produce"]
        dispatcher = Dispatcher(SimpleNamespace(), [each._replace(handle=produce) for each in _replaceable(served)])
        data = [p.PartitionProduceData(index=0, records=b"." * 2000)]

        def produce_of(name: str) -> bytearray:
            request = p.ProduceRequest(acks=1, topic_data=[p.TopicProduceData(name=name, partition_data=data)])
            return bytearray(frame_of(request, 9))

        dispatcher.request_turns.charge(2 * TURN_UNITS)
        connection, shared = FakeConnection(), produce_of("first")
        answer = dispatcher.handle(memoryview(shared), connection)
        assert not seen and connection.alone == 1
        shared[:] = bytes(len(shared))
        assert await answer and seen == ["first"]  # type: ignore[misc]

    played(scenario)


def _replaceable(served: list[Any]) -> list[Any]:
    from dataclasses import replace

    return [SimpleNamespace(_replace=lambda each=each, **changes: replace(each, **changes)) for each in served]


# Portions


def _long(portions: int, units: Counter[str] | None = None, name: str = "") -> Work[str]:
    for _ in range(portions * PORTION_UNITS):
        if units is not None:
            units[name] += 1
        yield
    return name


def test_what_begins_in_one_turn_is_bounded_for_all_works_together() -> None:
    async def scenario() -> None:
        portions, units, done = Portions(), Counter[str](), []
        works = [portions.run(_long(2, units, "long")) for _ in range(100)]
        assert units["long"] < 20 * AT_ONCE_UNITS, "not a hundred units of each"

        def short() -> Work[str]:
            for _ in range(AT_ONCE_UNITS // 2):
                yield
            return "short"

        short_work = portions.run(short())
        assert isinstance(short_work, asyncio.Future)
        for each in [*works, short_work]:
            each.add_done_callback(lambda future: done.append(future.result()))  # type: ignore[union-attr]
        await short_work
        assert portions.turns < 30 and len(done) < 20, "it is short, so it does not wait for the long ones"
        assert portions.run(short()) == "short" or portions.is_busy
        await asyncio.gather(*works)  # type: ignore[arg-type]
        assert done.count("long") == 100 and not portions.is_busy

    played(scenario)


# Fetches and acknowledgements that wait


def test_wide_fetches_that_expire_together_are_looked_at_in_several_turns() -> None:
    async def scenario() -> None:
        portions, looks = Portions(), Counter[int]()

        def gather() -> tuple[Any, int, bool]:
            looks[portions.turns] += 1
            return {}, 0, False

        limits = FetchParams(-1, 12, 1000, 1, 1000, 0)
        fetches = [
            DelayedFetch(limits, 0, gather, lambda _: "reply", lambda: None, lambda: 1600, portions)  # type: ignore[arg-type, return-value]
            for _ in range(60)
        ]
        await asyncio.gather(*[each.future for each in fetches])
        assert looks.total() == 60 and max(looks.values()) <= 12, looks

    played(scenario)


def test_partitions_that_fetches_without_a_session_wait_for_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_reader, "AWAITED_PARTITIONS_MAX", 6)
    m = messages.fetch_request

    async def scenario() -> None:
        parts = MemoryParts(*[leader("t", index, end=5) for index in range(3)])
        dispatcher = Dispatcher(parts, SERVED)
        asked = [m.FetchPartition(partition=index, fetch_offset=5, partition_max_bytes=1000) for index in range(3)]
        request = m.FetchRequest(
            max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[m.FetchTopic(topic="t", partitions=asked)]
        )
        frame, last = frame_of(request, 12), FakeConnection()
        waiting = [dispatcher.handle(frame, FakeConnection()) for _ in range(2)]
        assert all(isinstance(each, asyncio.Future) for each in waiting)
        assert isinstance(dispatcher.handle(frame, last), list) and last.muted_s == [0.1]
        await asyncio.gather(*waiting)  # type: ignore[arg-type]
        assert parts.partition_reader.awaited_partitions == 0
        again = dispatcher.handle(frame, last)
        assert isinstance(again, asyncio.Future)
        await again

    played(scenario)


def test_a_fetch_of_very_many_partitions_does_not_wait_as_long_as_its_client_likes() -> None:
    """It keeps memory for which others wait."""

    async def scenario() -> None:
        m = messages.fetch_request
        asked = [m.FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=1000)]
        topics = [m.FetchTopic(topic="t", partitions=asked), *[m.FetchTopic(topic="", partitions=[])] * TOPICS]
        request = m.FetchRequest(max_wait_ms=1_000_000, min_bytes=1, max_bytes=1 << 20, topics=topics)
        parts = MemoryParts(leader(end=5))
        await Dispatcher(parts, SERVED).handle(frame_of(request, 12), FakeConnection())  # type: ignore[misc]
        assert asyncio.get_running_loop().time() <= 1.1 and parts.partition_reader.awaited_partitions == 0

    played(scenario)


def test_acknowledgements_that_time_out_in_any_order_cost_the_same_each() -> None:
    async def scenario() -> None:
        partition = lead()
        waits = [partition.when_committed(append(partition, 1), lambda code: None) for _ in range(2000)]
        with measured_turns() as turns:
            for each in reversed(waits):
                assert each is not None
                partition.forget_wait(each)
        assert turns.calls < 20 * len(waits)
        assert not partition._ack_waits

    played(scenario)
