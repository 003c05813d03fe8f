"""What a message may cost: bounds that are checked before anything is made, and budgets that are as true as memory is."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalite.errors import BoundExceeded, ProtocolViolation
from kafkalite.net.frames import read_request_header
from kafkalite.protocol import codec, messages
from kafkalite.protocol.bounds import REQUEST_MEMORY_BYTES, SMALL_BYTES, UNKNOWN_TAGS, Budget, least_bytes
from kafkalite.protocol.schemas.compiler import Reading
from kafkalite.protocol.schemas.schema import Field
from kafkalite.protocol.schemas.writer_source import uvarint
from tests.case import case
from tests.unit.protocol.hostile_frames import Path, arrays, body_with_many
from tests.unit.protocol.kio_oracle import MessageVersion, all_versions
from tests.unit.protocol.test_hostile_bytes import encoded

EVERY = list(all_versions())
ENDS = [each for each in EVERY if each.version in (each.api.min_version, each.api.max_version)]


def schema_of(each: MessageVersion) -> Any:
    return messages.schema(each.api, each.direction, each.version)


def arrays_of(chosen: list[MessageVersion]) -> Iterator[tuple[MessageVersion, Path]]:
    for each in chosen:
        for path in arrays(schema_of(each)):
            yield each, path


def portions(each: MessageVersion, body: bytes, budget: Budget) -> Reading:
    return codec.metered_reader(each.api.key, each.direction, each.version)(memoryview(body), 0, budget)


def all_of(reading: Reading) -> tuple[Any, int]:
    """(message, portions after the first)."""
    steps = 0
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value, steps
        steps += 1


def test_a_budget_changes_nothing_of_what_is_read() -> None:
    for each in ENDS:
        with case(each):
            whole = encoded(each)
            message, _ = all_of(portions(each, whole, Budget(len(whole), 1 << 20)))
            assert message == codec.reader(each.api.key, each.direction, each.version)(whole, 0)


def test_every_array_may_be_long_and_is_read_in_portions() -> None:
    count = 2100
    for each, path in arrays_of(ENDS):
        with case(f"{each} {'.'.join(path)}"):
            body = body_with_many(schema_of(each), path, count)
            budget = Budget(0, 1 << 30)
            try:
                message, steps = all_of(portions(each, body, budget))
            except ProtocolViolation as problem:  # which an adapter finds in the numbers
                assert "security protocol" in str(problem)
                continue
            assert steps >= 2 or budget.charged_bytes < count * 97, "numbers alone are read at once"
            assert _found(message, path) in (count, None)


def _found(message: Any, path: Path) -> int | None:
    """Items of the array; None where an adapter has moved it."""
    for name in path[:-1]:
        message = getattr(message, name)
        if isinstance(message, list):
            if not message:
                return None
            message = message[0]
        if message is None:
            return None
    return len(getattr(message, path[-1]))


def test_what_is_charged_is_what_is_taken() -> None:
    """A stranger chooses the message that the estimate knows least of: no array of any message takes a fifth more than it is charged."""
    count = 150
    for each, path in arrays_of([each for each in ENDS if each.direction == "request"]):
        with case(f"{each} {'.'.join(path)}"):
            body = body_with_many(schema_of(each), path, count)
            all_of_if_good(portions(each, body, Budget(0, 1 << 30)))  # compiled by now
            budget = Budget(0, 1 << 30)
            tracemalloc.start()
            try:
                kept = all_of_if_good(portions(each, body, budget))
                taken = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert taken <= 1.2 * budget.charged_bytes + 8_000
            del kept


def all_of_if_good(reading: Reading) -> Any:
    try:
        return all_of(reading)[0]
    except ProtocolViolation:
        return None


def test_a_budget_that_is_used_up_ends_every_message() -> None:
    for each, path in arrays_of(ENDS):
        with case(f"{each} {'.'.join(path)}"):
            body = body_with_many(schema_of(each), path, 1000)
            with pytest.raises(BoundExceeded) as raised:
                all_of(portions(each, body, Budget(0, 7000)))
            assert raised.value.bound == "memory"


def test_a_count_must_leave_room_for_the_shortest_items() -> None:
    for each, path in arrays_of(ENDS):
        with case(f"{each} {'.'.join(path)}"):
            body = body_with_many(schema_of(each), path, 20, claimed=len(encoded(each)) + 300)
            for read in (codec.reader(each.api.key, each.direction, each.version), None):
                with pytest.raises(BoundExceeded) as raised:
                    read(body, 0) if read else all_of(portions(each, body, Budget(0, 1 << 20)))
                assert raised.value.bound == "array"


def many(api_key: int, version: int, array: str, count: int) -> bytes:
    each = next(e for e in EVERY if (e.api.key, e.direction, e.version) == (api_key, "request", version))
    return body_with_many(schema_of(each), tuple(array.split(".")), count)


@pytest.mark.parametrize(
    ("api_key", "version", "array", "count"),
    [
        (3, 1, "topics", 10_000_000),
        (3, 12, "topics", 3_000_000),
        (0, 7, "topic_data", 2_000_000),
        (9, 5, "topics.partition_indexes", 4_000_000),
        (19, 4, "topics", 500_000),
        (32, 2, "resources", 1_000_000),
        (11, 5, "protocols", 1_000_000),
    ],
    ids=[
        "Metadata 1",
        "Metadata 12",
        "Produce 7",
        "OffsetFetch 5",
        "CreateTopics 4",
        "DescribeConfigs 2",
        "JoinGroup 5",
    ],
)
def test_a_frame_that_stopped_the_broker(api_key: int, version: int, array: str, count: int) -> None:
    body = many(api_key, version, array, count)
    portions = 0
    with pytest.raises(BoundExceeded, match="its parts would take more"):
        for _ in codec.request_portions(api_key, version, memoryview(body)):
            portions += 1
    assert portions <= (80 if api_key == 19 else 0), "its topics are charged at once, their empty lists when they come"


def test_a_hundred_thousand_partitions_pass() -> None:
    """LeaderAndIsr is the dearest of what brokers and clients send of that many."""
    m = messages.leader_and_isr_request
    brokers = [[1001 + number, 1002 + number, 1003 + number] for number in range(5)]
    topic = m.TopicState(
        topic_name="a-topic-of-a-usual-name",
        topic_id=bytes(range(16)),
        partition_states=[
            m.PartitionState(
                partition_index=300 + n,
                leader=1001,
                leader_epoch=1000 + n,
                isr=brokers[n % 5],
                partition_epoch=2000 + n,
                replicas=brokers[n % 5],
            )
            for n in range(2)
        ],
    )
    tail = len(b"".join(codec.encode_request(m.LeaderAndIsrRequest(), 7)))
    one = b"".join(codec.encode_request(m.LeaderAndIsrRequest(topic_states=[topic]), 7))
    bare = b"".join(codec.encode_request(m.LeaderAndIsrRequest(), 7))
    begin = next(index for index in range(tail) if one[index] != bare[index])  # where the count is
    item = one[begin + 1 : len(one) - (tail - begin - 1)]
    budget = Budget(len(item) * 1000, 1 << 30)
    message, _ = all_of(
        codec.request_portions(4, 7, one[:begin] + uvarint(1001) + item * 1000 + bare[begin + 1 :], 0, budget)
    )
    assert len(message.topic_states) == 1000 and message.topic_states[-1] == topic
    assert budget.charged_bytes * 50 < REQUEST_MEMORY_BYTES + len(item) * 50_000 // 2


def test_between_brokers_three_hundred_thousand_topics_pass() -> None:
    m = messages.leader_and_isr_request
    topics = [
        m.TopicState(
            topic_name=f"a-topic-of-a-usual-name-{number}",
            topic_id=number.to_bytes(16, "big"),
            partition_states=[m.PartitionState(leader=1001, leader_epoch=number, isr=[1, 2, 3], replicas=[1, 2, 3])],
        )
        for number in range(1000)
    ]
    body = b"".join(codec.encode_request(m.LeaderAndIsrRequest(topic_states=topics), 7))
    budget = Budget(len(body), 1 << 30)
    all_of(codec.request_portions(4, 7, body, 0, budget))
    assert budget.charged_bytes * 300 < codec.request_budget(4, 300 * len(body)).left_bytes
    assert codec.request_budget(4, 1000).left_bytes < REQUEST_MEMORY_BYTES + 10_000, "few bytes buy little"
    assert codec.request_budget(3, 1 << 24).left_bytes == REQUEST_MEMORY_BYTES + (1 << 23)


def test_large_records_cost_nothing() -> None:
    m = messages.produce_request
    topic = m.TopicProduceData(name="t", partition_data=[m.PartitionProduceData(records=bytes(50 * SMALL_BYTES))])
    body = b"".join(codec.encode_request(m.ProduceRequest(topic_data=[topic]), 9))
    budget = Budget(0, 2000)
    message, steps = all_of(codec.request_portions(0, 9, memoryview(body), 0, budget))
    assert (len(message.topic_data[0].partition_data[0].records), steps) == (50 * SMALL_BYTES, 0)


@pytest.mark.parametrize("text", ["a" * 30_000, "a" * 29_000 + "🙂", "é" * 15_000])
def test_text_is_charged_as_it_is_kept(text: str) -> None:
    """One character outside of the Basic Multilingual Plane makes every other of its string take four bytes."""
    m = messages.find_coordinator_request
    body = b"".join(codec.encode_request(m.FindCoordinatorRequest(coordinator_keys=[text] * 20), 4))
    all_of(codec.request_portions(10, 4, memoryview(body)))  # compiled by now
    budget = Budget(0, 1 << 30)
    tracemalloc.start()
    try:
        kept = all_of(codec.request_portions(10, 4, memoryview(body), 0, budget))
        assert tracemalloc.get_traced_memory()[0] <= budget.charged_bytes + 4000
    finally:
        tracemalloc.stop()
    assert kept[0].coordinator_keys[0] == text


def test_the_search_for_garbage_is_as_it_was_after_each_portion() -> None:
    body = many(3, 12, "topics", 5000)
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            for _ in codec.request_portions(3, 12, memoryview(body)):
                assert gc.isenabled() is enabled
            assert gc.isenabled() is enabled
        finally:
            gc.enable()


# Tagged fields


FLEXIBLE = [each for each in EVERY if each.api.is_flexible(each.version)]


def test_a_struct_has_few_tagged_fields_that_nobody_knows() -> None:
    for each in FLEXIBLE:
        with case(each):
            schema = schema_of(each)
            known = sum(field.tag is not None for field in schema.fields)
            bare = body_with_many(schema, (), 0)
            assert bare[-1] == 0
            read = codec.reader(each.api.key, each.direction, each.version)
            empty = b"\xff\x01\x00"  # number 255
            read(bare[:-1] + uvarint(UNKNOWN_TAGS) + empty * UNKNOWN_TAGS, 0)
            most = known + UNKNOWN_TAGS
            with pytest.raises(BoundExceeded, match=f"{most + 1} tagged fields where there can be {most}"):
                read(bare[:-1] + uvarint(most + 1) + empty * (most + 1), 0)


def test_a_header_of_millions_of_tagged_fields_stalled_the_broker() -> None:
    frame = b"\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff" + uvarint(20_000_000) + bytes(1000)
    with pytest.raises(BoundExceeded, match="tagged fields"):
        read_request_header(frame, 2)


def test_a_tagged_field_reads_no_further_than_it_claims() -> None:
    """Or each of a million structs could read all that is behind it once more."""
    rng = random.Random(5)
    for each in FLEXIBLE:
        with case(each):
            schema = schema_of(each)
            tagged = [field for field in schema.fields if field.tag is not None]
            bare = body_with_many(schema, (), 0)
            read = codec.reader(each.api.key, each.direction, each.version)
            for field in tagged:
                body = b"\xff\x01" + rng.randbytes(100) if field.is_array or field.type == "string" else bytes(100)
                size = least_bytes(Field(field.name, field.type, field.is_array), True)
                for claimed in range(max(1, size - 1), 3 if field.is_array or field.type == "string" else size):
                    with pytest.raises(ProtocolViolation):
                        read(bare[:-1] + b"\x01" + uvarint(field.tag) + uvarint(claimed) + body, 0)


def test_a_string_is_no_longer_in_flexible_versions() -> None:
    rest = b"\x00\x01\x00\x00"
    head = b"\x02" + bytes(16)
    assert codec.decode_request(3, 12, head + uvarint(32_768) + b"a" * 32_767 + rest).topics[0].name == "a" * 32_767
    with pytest.raises(BoundExceeded, match="32768 bytes"):
        codec.decode_request(3, 12, head + uvarint(32_769) + b"a" * 32_768 + rest)
