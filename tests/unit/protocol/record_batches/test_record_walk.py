"""The walk over records, and whoever walks faster: the same answers for thousands of generated batches, good and hostile."""

from __future__ import annotations

import random
from array import array

import pytest

from kafkalite.client.record_codec import BatchRecords
from kafkalite.coordinators.batch_reader import read_batch
from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches import compiled_records, python_records, record_check, record_code, record_walk
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.record_check import check_records
from kafkalite.protocol.record_batches.record_walk import headers_at, record_at
from kafkalite.protocol.record_batches.records import (
    BatchHeader,
    NewRecord,
    assemble_batch,
    decode_records,
)
from kafkalite.protocol.record_batches.varint import write_varint
from kafkalite.storage.cleaning.batch_filter import OpenBatch
from kafkalite.types import TopicPartition

ROUNDS = 1500


def generated(chance: random.Random) -> list[NewRecord]:
    """Records that mostly look alike, or not at all."""
    count = chance.choice([1, 1, 2, 7, 8, 20, 40, 70])
    if chance.random() < 0.3:
        return [NewRecord(b"key", b"v" * 20, number) for number in range(count)]
    return [
        NewRecord(
            chance.choice([None, b"", chance.randbytes(chance.choice([1, 63, 64, 200]))]),
            chance.choice([None, b"", chance.randbytes(chance.choice([1, 63, 64, 8192]))]),
            chance.choice([number, -number, chance.randrange(-(1 << 61), 1 << 61)]),
            [("h" * chance.randrange(3), chance.choice([None, b"", b"\xff\xff"]))] * chance.choice([0, 0, 0, 1, 3]),
        )
        for number in range(count)
    ]


def encoded(records: list[NewRecord]) -> bytes:
    return b"".join(
        encode_record(each.timestamp, n, each.key, each.value, each.headers) for n, each in enumerate(records)
    )


def batch_of(data: bytes, count: int) -> tuple[bytearray, BatchHeader]:
    """A batch with a right CRC around anything."""
    batch = assemble_batch(
        data,
        records_count=count,
        last_offset_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
        base_offset=1000,
        leader_epoch=0,
        attributes=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
    return batch, BatchHeader.read(batch)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The same with bytes changed, taken out, put in, cut off or added."""
    changed = bytearray(data)
    at = chance.randrange(len(changed))
    match chance.randrange(6):
        case 0:
            changed[at] = chance.randrange(256)
        case 1:
            changed[at] ^= 1 << chance.randrange(8)
        case 2:
            del changed[at]
        case 3:
            del changed[at:]
        case 4:
            changed[at:at] = b"\xff" * chance.randrange(1, 12) + bytes((chance.randrange(256),))
        case 5:
            changed += b"\xff" * chance.randrange(1, 30)
    return bytes(changed)


def walked(data: bytes, count: int) -> list[tuple] | None:
    """The records by the walk, None where it refuses them: (timestamp delta, offset delta, key, value, headers)."""
    found, position = [], 0
    try:
        for _ in range(count):
            delta, offset, key, key_end, value, value_end, headers, at, position = record_at(data, position)
            found.append(
                (
                    delta,
                    offset,
                    data[key:key_end] if key >= 0 else None,
                    data[value:value_end] if value >= 0 else None,
                    headers_at(data, at, headers),
                )
            )
    except (IndexError, ValueError):
        return None
    return found if position == len(data) else None


def answer(call, *arguments, **named):
    """What a call returns, None for a refusal; nothing else may be raised."""
    try:
        return call(*arguments, **named)
    except (KafkaError, ValueError, IndexError, OverflowError):
        return None


def decoded(batch, header):
    return [(r.key, r.value) for r in compiled_records.decode(batch, header)]


def compacted(batch, header):
    return [(r.key, r.value) for r in OpenBatch(batch, header).records()]


def loaded(batch, header):
    return [(r.key, r.value) for r in read_batch(batch, header)]


def starts_by(find, data, count=1):
    return find(data, 0, len(data), count).tolist()


def starts_of(data, count=1):
    """By the walk."""
    starts = array("q")
    record_walk.find_starts(data, 0, len(data), count, starts)
    return starts.tolist()


def test_everybody_reads_what_was_written() -> None:
    chance = random.Random(1)
    for _ in range(ROUNDS // 5):
        records = generated(chance)
        data, count = encoded(records), len(records)
        batch, header = batch_of(data, count)
        expected = [(r.key, r.value) for r in records]
        found = walked(data, count)
        assert found is not None
        assert [(delta, offset) for delta, offset, *_ in found] == [(r.timestamp, n) for n, r in enumerate(records)]
        assert [each[2:4] for each in found] == expected
        assert [each[4] for each in found] == [[(name.encode(), value) for name, value in r.headers] for r in records]
        assert [(r.key, r.value, [*r.headers]) for r in decode_records(batch, header)] == [
            (r.key, r.value, [*r.headers]) for r in records
        ]
        assert [(r.key, r.value, [*r.headers]) for r in compiled_records.decode(batch, header)] == [
            (r.key, r.value, [*r.headers]) for r in records
        ]
        assert compacted(batch, header) == expected
        assert loaded(batch, header) == [each for each in expected if each[0] is not None]
        deltas = [r.timestamp for r in records]
        assert check_records(data, count, keys_required=False) == (min(deltas), max(deltas))
        starts = [0, *(len(encoded(records[:n])) for n in range(1, count))]
        assert starts == starts_of(data, count) == starts_by(record_code.find_starts, data, count)


def test_everybody_refuses_what_the_walk_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lying counts and lengths, cut data and bytes out of place: an answer for everybody, and the walk's where it is asked."""
    chance = random.Random(2)
    refused = 0
    for _ in range(ROUNDS):
        records = generated(chance)
        data, count = damaged(encoded(records), chance), max(1, len(records) + chance.choice([0, 0, 0, 1, -1, 1 << 20]))
        if not data:
            continue
        expected = walked(data, count) if count < 1 << 20 else None
        batch, header = batch_of(data, count)
        in_order = expected is not None and [each[1] for each in expected] == list(range(count))
        refused += not in_order
        with monkeypatch.context() as without:
            without.setattr(record_check, "check_in_order", python_records.check_in_order)
            alone = answer(check_records, data, count, keys_required=False)
        assert (alone is not None) == in_order
        assert answer(check_records, data, count, keys_required=False) == alone
        found = answer(decoded, batch, header)
        if expected is not None:
            assert answer(compacted, batch, header) == [each[2:4] for each in expected]
            assert found == [each[2:4] for each in expected]
            assert answer(loaded, batch, header) == [each[2:4] for each in expected if each[2] is not None]
    assert refused > ROUNDS // 3


def test_columns_have_the_walks_rules() -> None:
    record_columns = pytest.importorskip("kafkalite.client.consumer.record_columns")
    schema = record_columns.schema_of(["offset", "key", "value", "headers"])
    chance = random.Random(3)
    for number in range(ROUNDS // 3):
        records = generated(chance)
        data, count = encoded(records), len(records)
        if number % 3:
            data = damaged(data, chance)
        expected = walked(data, count)
        batch, header = batch_of(data, count)
        batches = [BatchRecords(batch, header, TopicPartition("t", 0))]
        found = answer(record_columns.record_batch, batches, 0, 1 << 62, schema)
        if expected is None:
            assert found is None
        elif found is not None and [each[1] for each in expected] == list(range(count)):
            assert found.column("key").to_pylist() == [each[2] for each in expected]
            assert found.column("value").to_pylist() == [each[3] for each in expected]


def long_varint(number: int, size: int) -> bytes:
    """`number` in a varint of `size` bytes, more than it needs."""
    output = bytearray()
    write_varint(output, number)
    while len(output) < size:
        output[-1] |= 0x80
        output.append(0)
    return bytes(output)


def with_length(body: bytes) -> bytes:
    return long_varint(len(body), 1) + body


@pytest.mark.parametrize(
    ("body", "is_well_formed"),
    [
        (b"\x00\x00\x00\x02k\x02v\x00", True),
        (b"\x00" + long_varint(0, 10) + b"\x00\x02k\x02v\x00", True),
        (b"\x00" + long_varint(0, 11) + b"\x00\x02k\x02v\x00", False),
        (b"\x00\x00" + long_varint(0, 5) + b"\x02k\x02v\x00", True),
        (b"\x00\x00" + long_varint(0, 6) + b"\x02k\x02v\x00", False),
        (b"\x00\x00\x00" + long_varint(1, 5) + b"k\x02v\x00", True),
        (b"\x00\x00\x00" + long_varint(1, 6) + b"k\x02v\x00", False),
        (b"\x00\x00\x00\x02k" + long_varint(1, 6) + b"v\x00", False),
        (b"\x00\x00\x00\x02k\x02v" + long_varint(0, 6), False),
        (b"\x80\x00\x00\x02k\x02v\x00", True),  # attributes are one byte of anything, not a varint
        (b"\x80\x00\x00\x00\x02k\x02v\x00", False),  # attributes in two bytes
        (b"\x00\x00\x00\x02k\x02v\x02\x01\x00", False),  # a header without a key
        (b"\x00\x00\x00\x02k\x02v\x02\x02\xff\x01", True),  # a header's key that is no UTF-8
        (b"\x00\x00\x00\x02k\x02v\x01", False),
        (b"\x00\x00\x00\x02k\x02v\x7e", False),
        (b"\x00\x00\x00\x02k\x7fv\x00", False),
        (b"\x00\x00\x00\x80\x80\x80\x80\x10", False),
        (b"\x00\x00\x00" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"k\x02v\x00", False),
        (b"\x00\x00\x00\x02k" + b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"v\x00", False),
        (b"", False),
        (b"\x00", False),
    ],
)
def test_hostile_records_one_by_one(body: bytes, is_well_formed: bool) -> None:
    data = with_length(body)
    batch, header = batch_of(data, 1)
    assert (walked(data, 1) is not None) == is_well_formed
    assert (answer(check_records, data, 1, keys_required=False) is not None) == is_well_formed
    assert (answer(decoded, batch, header) is not None) == is_well_formed
    beside = [
        with_length(b"\x00\x00" + long_varint(each, 1) + b"\x02k" + long_varint(each, 1) + b"v" * each + b"\x00")
        for each in range(12)
    ]
    many = b"".join([data, *beside[1:]])  # irregular records, and enough of them for compiled code
    assert (walked(many, 12) is not None) == is_well_formed
    assert (answer(check_records, many, 12, keys_required=False) is not None) == is_well_formed


def test_lengths_of_records_are_varints_of_five_bytes() -> None:
    body = b"\x00\x00\x00\x02k\x02v\x00"
    for size in range(1, 12):
        data = long_varint(len(body), size) + body
        assert (walked(data, 1) is not None) == (size <= 5)
        assert (answer(starts_of, data) is not None) == (size <= 5)
        assert (answer(starts_by, record_code.find_starts, data) is not None) == (size <= 5)
        batch, header = batch_of(data, 1)
        assert (answer(decoded, batch, header) is not None) == (size <= 5)


def test_varints_without_an_end_are_refused_wherever_they_begin() -> None:
    """Every place of a record and of its headers: what lies behind a batch is never read."""
    data = encoded([NewRecord(b"k", b"v", 5, [("h", b"x"), ("i", None)])])
    for at in range(len(data)):
        hostile = data[:at] + b"\xff" * (len(data) - at)
        batch, header = batch_of(hostile, 1)
        assert walked(hostile, 1) is None
        for behind in (b"", b"\xff" * 8, b"\x00" * 8, b"\x01" * 8):
            assert answer(decoded, bytes(batch) + behind, header) is None
        assert answer(starts_by, record_code.find_starts, hostile) == answer(starts_of, hostile)
