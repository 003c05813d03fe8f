"""The check of produced records: what it accepts is what decoding accepts, whichever way it went through the records."""

from __future__ import annotations

import bisect
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches import python_records, record_check
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.record_check import InvalidRecords, check_records
from kafkalite.protocol.record_batches.records import NewRecord
from kafkalite.protocol.record_batches.varint import read_varint


def encoded_record(number, record):
    return encode_record(record.timestamp, number, record.key, record.value, record.headers)


def encoded(records):
    return b"".join(encoded_record(number, each) for number, each in enumerate(records))


def regular(count, value_size=100, key=None, headers=()):
    return [NewRecord(key, b"v" * value_size, number // 100, headers) for number in range(count)]


@pytest.mark.parametrize(
    "shape", [{}, {"key": b"k" * 70}, {"headers": [("trace", b"x" * 8), ("n", None)]}, {"value_size": 0}]
)
def test_regular_records(shape):
    counts = [1, 31, 32, 63, 64, 65, 200, 8191, 8192, 8193, 20_000]
    records = [encoded_record(number, each) for number, each in enumerate(regular(counts[-1], **shape))]
    for count in counts:
        data = b"".join(records[:count])
        assert check_records(data, count, keys_required=False) == (0, (count - 1) // 100), count


def test_records_of_all_sizes():
    chance = random.Random(7)
    items = [
        NewRecord(
            chance.choice([None, b"", b"k" * chance.randrange(100)]),
            chance.choice([None, b"v" * chance.choice([0, 10, 63, 64, 9000])]),
            chance.randrange(-100_000, 100_000),
            [("h", None)] * chance.choice([0, 0, 0, 2]),
        )
        for _ in range(3000)
    ]
    stamps = [each.timestamp for each in items]
    assert check_records(encoded(items), len(items), keys_required=False) == (min(stamps), max(stamps))


def test_many_megabytes_are_checked_while_other_threads_go_on():
    items = [NewRecord(None, bytes(300_000 + number), number) for number in range(20)]
    assert check_records(encoded(items), len(items), keys_required=False) == (0, 19)


def test_a_long_run_is_compared_piece_by_piece(monkeypatch):
    monkeypatch.setattr(record_check, "_LARGEST_WINDOW", 100)
    assert check_records(encoded(regular(9000)), 9000, keys_required=False) == (0, 89)


def test_runs_of_several_shapes_follow_each_other():
    items = [*regular(100), *regular(50, 30), *regular(3, 5), *regular(500, 100, b"key")]
    assert check_records(encoded(items), len(items), keys_required=False) == (0, 4)


@pytest.mark.parametrize("width_ms", [1, 63, 64, 5_000, 2_000_000])
def test_timestamps_of_every_width(width_ms):
    items = [NewRecord(None, b"v", -width_ms if n % 2 else width_ms) for n in range(400)]
    assert check_records(encoded(items), 400, keys_required=False) == (-width_ms, width_ms)


@pytest.mark.parametrize("count", [2, 40, 300, 9000])
def test_every_damage_to_a_run_is_seen(count):
    """Whatever byte of structure changes, in whichever record, the check says no just as decoding would."""
    records = [encoded_record(number, each) for number, each in enumerate(regular(count, 20, b"key", [("h", b"x")]))]
    data = b"".join(records)
    chance = random.Random(count)
    starts = list(itertools.accumulate(map(len, records), initial=0))
    for _ in range(150):
        damaged = bytearray(data)
        place = chance.randrange(len(data))
        damaged[place] ^= 1 << chance.randrange(8)
        first = bisect.bisect_right(starts, place) - 1
        assert accepts(damaged, count) == decodes(damaged, count, first, starts)


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=3), st.binary(max_size=70)), min_size=1, max_size=60), st.data()
)
def test_agrees_with_decoding(items, draw):
    data = bytearray(encoded([NewRecord(key, value, 5) for key, value in items]))
    if draw.draw(st.booleans()):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    assert accepts(data, len(items)) == decodes(data, len(items))


def accepts(data, count):
    try:
        check_records(data, count, keys_required=False)
    except KafkaError as problem:
        assert problem.code == ErrorCode.INVALID_RECORD
        return False
    return True


def decodes(data, count, first=0, starts=(0,)):
    """The slow truth: records lie end to end, each as long as its parts, with offset deltas 0, 1, 2 and so on.

    With `starts`, where the records were before one byte of record `first` changed, those before it and those behind are known to be sound.
    """
    position = starts[first]
    try:
        for number in range(first, count):
            length, position = read_varint(data, position)
            end = position + length
            _, position = read_varint(data, position + 1)
            delta, position = read_varint(data, position)
            for _ in range(2):
                size, position = read_varint(data, position)
                position += max(size, 0)
            headers, position = read_varint(data, position)
            if headers < 0:
                return False
            for part in range(2 * min(headers, len(data))):
                size, position = read_varint(data, position)
                if size < 0 and not part % 2:
                    return False
                position += max(size, 0)
            if delta != number or position != end or end > len(data):
                return False
            if len(starts) > 1 and position == starts[number + 1]:
                return True
    except (IndexError, ValueError):
        return False
    return position == len(data)


def test_missing_keys_are_told_one_by_one():
    items = [NewRecord(None if n in (3, 150) else b"k", b"v", 0) for n in range(200)]
    assert check_records(encoded(items), 200, keys_required=False)
    with pytest.raises(InvalidRecords) as refused:
        check_records(encoded(items), 200, keys_required=True)
    assert [number for number, _ in refused.value.record_errors] == [3, 150]


def test_only_missing_keys():
    with pytest.raises(InvalidRecords) as refused:
        check_records(encoded(regular(100)), 100, keys_required=True)
    assert len(refused.value.record_errors) == 100


@pytest.mark.parametrize("count", [99, 101])
def test_wrong_counts(count):
    with pytest.raises(KafkaError) as refused:
        check_records(encoded(regular(100)), count, keys_required=False)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_offset_deltas_that_do_not_begin_at_zero_or_jump():
    record = [encode_record(0, delta, None, b"v" * 10) for delta in range(300)]
    for deltas in ([1, 2], [0, 2], [*range(100), *range(101, 200)], [0, 0]):
        with pytest.raises(KafkaError):
            check_records(b"".join(record[delta] for delta in deltas), len(deltas), keys_required=False)


def outcome(data, count, keys_required):
    try:
        return check_records(data, count, keys_required=keys_required)
    except InvalidRecords as refused:
        return refused.record_errors
    except KafkaError as refused:
        return refused.code


@pytest.mark.parametrize("seed", range(4))
def test_compiled_code_never_decides_otherwise_than_the_loop(seed, monkeypatch):
    """Irregular records, with bytes changed, put in, taken out, and lengths near the limits of 64 bits."""
    chance = random.Random(seed)
    changed = []
    for _ in range(400):
        count = chance.randrange(8, 70)
        items = [
            NewRecord(
                chance.choice([None, b"k" * chance.randrange(3), b"key"]),
                chance.choice([None, chance.randbytes(chance.randrange(80))]),
                chance.choice([number, -number, 1 << chance.randrange(63)]) if seed else number,
                [("h" * chance.randrange(3), chance.randbytes(3))] * chance.choice([0, 0, 1]),
            )
            for number in range(count)
        ]
        data = bytearray(encoded(items))
        match chance.randrange(6):
            case 0:
                data[chance.randrange(len(data))] = chance.randrange(256)
            case 1:
                del data[chance.randrange(len(data))]
            case 2:
                del data[chance.randrange(len(data)) :]
            case 3:
                at = chance.randrange(len(data))
                data[at:at] = b"\xff" * 8 + bytes((chance.randrange(0x80, 0x100), chance.randrange(0x80)))
            case 4:
                data += b"\xff" * chance.randrange(12)
        changed.append((data, count + chance.choice([0, 0, 0, 1, -1]), chance.random() < 0.3))
    found = [outcome(*each) for each in changed]
    monkeypatch.setattr(record_check, "check_in_order", python_records.check_in_order)
    assert found == [outcome(*each) for each in changed]


def test_header_names_that_are_no_text_are_the_loops_to_judge():
    odd = [b"\x00\x00" + bytes((2 * n,)) + b"\x01\x02" + b"v" + b"\x02" + b"\x02\xff" + b"\x01" for n in range(60)]
    data = b"".join(bytes((2 * len(each),)) + each for each in odd[:50])
    data += b"".join(bytes((2 * len(each) + 2,)) + each[:4] + b"\x04vv" + each[6:] for each in odd[50:])
    assert check_records(data, 60, keys_required=False) == (0, 0)
