"""What a request that waits keeps: a client chooses for how long, so not more than about its own bytes."""

from __future__ import annotations

import gc
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.broker.dispatch import Dispatcher
from kafkalite.broker.fetching import PartitionReader
from kafkalite.broker.handlers import SERVED
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.security.principal import ANONYMOUS
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.memory_parts import MemoryParts, leader

VERSION = 12
WAITING = 2
KEPT_BYTES = 24 * 1024
"""Of each request that waits, beside its bytes."""


def fetch(max_wait_ms: int, topics: int, partitions: int = 1) -> bytes:
    """Of a partition without news, and of so many topics without partitions."""
    m = messages.fetch_request
    asked = [m.FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=1000)] * partitions
    named = [m.FetchTopic(topic="t", partitions=asked), *[m.FetchTopic(topic="", partitions=[])] * topics]
    request = m.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=named)
    body = codec.encode_request(request, VERSION)
    return b"".join(request_frame(APIS[ApiKey.FETCH], VERSION, 1, "me", body))[4:]


def connection() -> Any:
    return SimpleNamespace(
        peer_host="host",
        principal=ANONYMOUS,
        listener="PLAINTEXT",
        closed=False,
        unread=SimpleNamespace(response_bytes_max=1 << 31),
        begin_alone=lambda: None,
        mute=lambda s: None,
    )


@pytest.mark.parametrize(("topics", "partitions"), [(20_000, 1), (1_300, 1), (0, 1800)])
def test_a_fetch_that_waits_keeps_its_bytes_and_not_what_they_stand_for(topics: int, partitions: int) -> None:
    frame = memoryview(fetch(1_000_000, topics, partitions))

    async def scenario() -> None:
        dispatcher = Dispatcher(MemoryParts(leader(end=5)), SERVED)
        waiting = [dispatcher.handle(frame, connection())]
        await virtual_time.settle()
        gc.collect()
        tracemalloc.start()
        try:
            waiting += [dispatcher.handle(frame, connection()) for _ in range(WAITING)]
            await virtual_time.settle()
            gc.collect()
            kept_bytes = tracemalloc.get_traced_memory()[0] / WAITING
        finally:
            tracemalloc.stop()
        assert not any(each.done() for each in waiting)  # type: ignore[union-attr]
        assert kept_bytes < KEPT_BYTES + (8 if partitions > 1 else 1) * len(frame)
        dispatcher.cancel_all()
        await virtual_time.settle()

    virtual_time.run(scenario())


def test_the_failure_of_a_fetch_that_waited_names_what_it_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        parts = MemoryParts(leader(end=5))
        answer = Dispatcher(parts, SERVED).handle(memoryview(fetch(100, 2000)), connection())

        def fail(*_: Any) -> Any:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

        await virtual_time.settle()
        for name in ("read_in_memory", "read_all"):
            monkeypatch.setattr(PartitionReader, name, fail)
        frame = b"".join(await answer)  # type: ignore[arg-type, misc]
        reply = codec.decode_response(ApiKey.FETCH, VERSION, frame, 9)
        assert reply.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert [each.topic for each in reply.responses] == ["t"] + [""] * 2000

    virtual_time.run(scenario())
