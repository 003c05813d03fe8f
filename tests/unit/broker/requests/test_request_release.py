"""What a request was made of goes with its answer, also when it failed: nothing of it is left to the garbage collector.

A traceback that is kept holds the frames below it, and they hold the request: a megabyte of records for each refused Produce, until enough
other objects were made.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.messages import Message
from kafkalite.testing.simulation import virtual_time
from tests.fuzz.brokers import Brokers
from tests.unit.broker.produce.fast_path_broker import Broker as LedPartitions
from tests.unit.broker.produce.fast_path_broker import Peer, produce

REQUESTS = 200


@pytest.fixture
def garbage() -> Iterator[list[object]]:
    """What only the garbage collector would have found, once it was asked."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def test_no_request_is_left_to_the_garbage_collector(garbage: list[object]) -> None:
    broker, rng = Brokers(), random.Random(3)
    for data in rng.sample(list(broker.seeds(rng)), REQUESTS):
        broker.check(data)
    gc.collect()
    left = {type(each).__name__ for each in garbage if isinstance(each, Message)}
    broker.close()
    assert not left


@pytest.mark.parametrize("in_session", [False, True])
def test_what_has_waited_is_not_left_to_it_either(tmp_path: Path, garbage: list[object], in_session: bool) -> None:
    """A consumer that reads as records come has thousands of such fetches in a second."""

    async def scenario() -> None:
        broker = LedPartitions(tmp_path)
        consumer, producer, session_id = Peer(broker), Peer(broker), 0
        for number in range(5):
            consumer.send(fetch(number, session_id, number if in_session else -1))
            await virtual_time.settle()
            assert not consumer.answers()
            producer.send(produce(acks=(1, -1)[number % 2], client_id=f"{number}"))
            await virtual_time.settle()
            (answer,) = consumer.answers()
            assert len(producer.answers()) == 1
            reply = codec.decode_response(ApiKey.FETCH, 11, answer, 8)
            assert reply.responses[0].partitions[0].records
            session_id = reply.session_id
            if number == 1:  # what is made once is there
                gc.collect()
                garbage.clear()
        gc.collect()

    virtual_time.run(scenario())
    assert not [each for each in garbage if type(each).__module__.startswith("kafkalite")]


def fetch(number: int, session_id: int, epoch: int) -> bytes:
    """A framed request for partition 0 of "t", which waits for record `number`; -1 is the epoch of one without a session."""
    m = messages.fetch_request
    asked = m.FetchPartition(partition=0, fetch_offset=number, partition_max_bytes=1000)
    request = m.FetchRequest(
        max_wait_ms=5000,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[m.FetchTopic(topic="t", partitions=[asked])],
    )
    return b"".join(request_frame(APIS[ApiKey.FETCH], 11, number, "reader", codec.encode_request(request, 11)))
