"""A Produce request whose first batch is nearly all of it is known without decoding it; what names more is not taken for one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkalite.errors import ProtocolViolation
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.bounds import PLAIN_BYTES
from kafkalite.protocol.produce_outline import one_batch_at

p = messages.produce_request
RECORDS = bytes(2 * PLAIN_BYTES)


def body(version: int, *sizes: int, transactional_id: str | None = None, name: str = "topic") -> bytes:
    """A request of one topic with records of these sizes."""
    data = [p.PartitionProduceData(index=number, records=RECORDS[:size]) for number, size in enumerate(sizes)]
    request = p.ProduceRequest(
        transactional_id=transactional_id, acks=1, topic_data=[p.TopicProduceData(name=name, partition_data=data)]
    )
    return b"head" + b"".join(map(bytes, codec.encode_request(request, version)))


@pytest.mark.parametrize("transactional_id", [None, "x" * 100])
@pytest.mark.parametrize("version", range(3, APIS[ApiKey.PRODUCE].max_version + 1))
def test_one_large_batch_is_known_in_each_version(version: int, transactional_id: str | None) -> None:
    identity = transactional_id
    assert one_batch_at(body(version, len(RECORDS), transactional_id=identity), 4, version)
    assert one_batch_at(body(version, len(RECORDS), 1000, transactional_id=identity), 4, version)
    halves = body(version, PLAIN_BYTES, PLAIN_BYTES + 1, transactional_id=identity)
    assert not one_batch_at(halves, 4, version)
    assert not one_batch_at(body(version, transactional_id=identity), 4, version)
    assert (one_batch_at(body(version, len(RECORDS), name="x" * 200), 4, version) > 0) == (version < 9)


@pytest.mark.parametrize("version", [0, 2])
def test_what_is_not_known_is_none(version: int) -> None:
    assert not one_batch_at(bytes(300_000), 0, version)


@pytest.mark.parametrize("version", [3, 9])
def test_whatever_is_taken_for_one_names_little(version: int) -> None:
    """Bytes before the records are changed at random: what the decoder makes of it has no more parts than fit behind the records."""
    rng, whole, taken = random.Random(version), body(version, len(RECORDS)), 0
    for _ in range(3000):
        changed = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(4, 40)] = rng.choice((0, 1, 2, 3, 127, 128, 255, rng.randrange(256)))
        records_at = one_batch_at(changed, 4, version)
        if not records_at:
            continue
        taken += 1
        try:
            request: Any = codec.reader(ApiKey.PRODUCE, "request", version)(memoryview(changed), 4)
        except ProtocolViolation:
            continue
        view = memoryview(changed)
        first = next((each for topic in request.topic_data for each in topic.partition_data), None)
        if first is not None:
            view[records_at] ^= 1
            assert first.records[0] == changed[records_at]
            view[records_at] ^= 1
            assert first.records == view[records_at : records_at + len(first.records)]
        named = sum(1 + len(topic.partition_data) for topic in request.topic_data)
        assert named <= PLAIN_BYTES, (version, bytes(changed[:40]))
    assert taken > 100
