"""What a request was made of goes with its answer, also when it failed: nothing of it is left to the garbage collector.

A traceback that is kept holds the frames below it, and they hold the request: a megabyte of records for each refused Produce, until enough
other objects were made.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator

import pytest

from kafkalite.protocol.messages import Message
from tests.fuzz.brokers import Brokers

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
