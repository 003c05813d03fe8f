"""Compiled code and Python's, function by function: the same results and the same errors for whatever bytes and objects they are given."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.errors import KafkaError
from kafkalite.portions import in_one_go
from kafkalite.protocol.record_batches import python_records, record_code
from kafkalite.protocol.record_batches.compiled_records import decode, decode_keys, decode_whole
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.record_check import check_records
from kafkalite.protocol.record_batches.record_code import EVERYTHING, KEYS, LEAST_TIMESTAMP, VALUES, VARIABLE
from kafkalite.protocol.record_batches.record_digest import Times, digest_records
from kafkalite.protocol.record_batches.records import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    Record,
    assemble_batch,
    iter_records,
)
from tests.unit.protocol.record_batches.record_rows import (
    COMPILED,
    EDGES,
    LARGEST,
    outcome,
    rows,
)

encoded = rows.map(lambda found: b"".join(encode_record(delta, n, *each) for n, (delta, *each) in enumerate(found)))
places = st.integers(0, 400)
damages = st.one_of(
    st.tuples(st.just("set"), places, st.binary(min_size=1, max_size=2)),
    st.tuples(st.just("insert"), places, st.binary(max_size=12) | st.integers(1, 12).map(lambda n: b"\xff" * n)),
    st.tuples(st.just("delete"), places, st.integers(1, 9)),
    st.tuples(st.just("cut"), places, st.none()),
)


def damage(data: bytes, changes: Sequence[tuple[str, int, Any]]) -> bytes:
    changed = bytearray(data)
    for kind, at, what in changes:
        at = min(at, len(changed))
        match kind:
            case "set":
                changed[at : at + len(what)] = what
            case "insert":
                changed[at:at] = what
            case "delete":
                del changed[at : at + what]
            case "cut":
                del changed[at:]
    return bytes(changed)


hostile = st.builds(damage, encoded, st.lists(damages, max_size=3)) | st.binary(max_size=60)
edges = st.sampled_from(EDGES)


@settings(max_examples=150, deadline=None)
@given(hostile, st.data())
def test_both_read_the_same(compiled: ModuleType, data: bytes, more: st.DataObject) -> None:
    count = more.draw(st.integers(-1, 25) | st.just(1 << 31), "count")
    position = more.draw(st.integers(-1, 3), "position")
    end = len(data) + more.draw(st.sampled_from((0, 0, 0, -1, 1)), "end")
    buffer = more.draw(st.sampled_from((bytes, bytearray, memoryview)), "buffer")(data)
    bases = more.draw(edges), more.draw(edges)
    append_time, wanted = more.draw(st.none() | edges), more.draw(st.integers(0, EVERYTHING))
    for name, arguments in {
        "read_columns": (count, *bases, append_time, wanted),
        "find_places": (min(count, 25), *bases),
        "skip_records": (min(count, 25), *bases, more.draw(edges), more.draw(edges)),
        "find_starts": (count,),
    }.items():
        calls = (getattr(code, name) for code in (compiled, python_records))
        ours, theirs = (outcome(call, buffer, position, end, *arguments) for call in calls)
        assert ours == theirs, name


@settings(max_examples=150, deadline=None)
@given(hostile, st.integers(1, 25), st.booleans(), st.sampled_from((1 << 62, 1)))
def test_the_check_says_nothing_or_what_the_walk_says(
    compiled: ModuleType, data: bytes, count: int, keys_required: bool, headers_at_once: int
) -> None:
    facts = compiled.check_in_order(data, 0, len(data), count, headers_at_once)
    with pytest.MonkeyPatch.context() as without:
        without.setattr("kafkalite.protocol.record_batches.record_check.check_in_order", python_records.check_in_order)
        try:
            walked = check_records(data, count, keys_required=keys_required)
        except KafkaError:
            walked = None
    if facts is None:
        assert walked is None or headers_at_once == 1 or not -(1 << 63) <= walked.smallest <= walked.largest <= LARGEST
    elif facts[2] or not keys_required:
        assert walked == facts[:2]
    else:
        assert walked is None


@settings(max_examples=300, deadline=None)
@given(hostile, st.integers(0, 25), edges, edges, st.none() | edges, st.tuples(edges, edges, edges, edges))
def test_a_digest_says_nothing_or_what_the_records_say(
    compiled: ModuleType,
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    bounds: tuple[int, int, int, int],
) -> None:
    given = data, 0, len(data), count, base_offset, base_timestamp, append_time
    found = compiled.digest_records(*given, *bounds)
    try:
        position, columns = python_records.read_columns(*given, EVERYTHING)
    except ValueError:
        assert found is None
        return
    records = [Record._make(each) for each in zip(*columns, strict=True)]
    odd = any(not -(1 << 63) <= each.offset <= LARGEST for each in records) or any(
        not name.isascii() for each in records for name, _ in each.headers
    )
    if len(records) < count:
        assert found is None
    elif found is None:
        assert odd, "only these are left to Python"
    else:
        start, end, since, latest = bounds
        assert found == (position, in_one_go(digest_records(records, start, end, Times(since, latest + 1))))


@settings(max_examples=300, deadline=None)
@given(hostile, st.integers(-1, 25), edges, edges, st.none() | edges, st.tuples(edges, edges, edges, edges))
def test_a_digest_of_batches_is_that_of_their_records(
    compiled: ModuleType,
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    bounds: tuple[int, int, int, int],
) -> None:
    """In a batch of whatever bytes; a second one of the same bytes is cut."""
    attributes, max_timestamp = (0, 0) if append_time is None else (LOG_APPEND_TIME, append_time)
    batch = assemble_batch(
        data,
        records_count=count,
        last_offset_delta=0,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        base_offset=base_offset,
        leader_epoch=0,
        attributes=attributes,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
    alone = compiled.digest_records(data, 0, len(data), count, base_offset, base_timestamp, append_time, *bounds)
    nothing = python_records.digest_batches(batch, 0, len(batch), *bounds)
    assert nothing[0] == 0
    expected = nothing if alone is None else (len(batch), alone[1])
    for cut in range(1, min(len(batch), 80)):
        both = batch + batch[:-cut]
        assert compiled.digest_batches(both, 0, len(both), *bounds) == expected
    damaged = bytearray(batch)
    damaged[8:12] = (0x7FFFFFFF).to_bytes(4, "big")
    assert compiled.digest_batches(damaged, 0, len(damaged), *bounds) == nothing


@settings(max_examples=100, deadline=None)
@given(hostile, st.integers(0, 25), edges, edges, st.booleans())
def test_whole_batches_are_read_as_by_the_walk(
    data: bytes, count: int, base_offset: int, base_timestamp: int, by_broker: bool
) -> None:
    """By whichever code is in use."""
    attributes = LOG_APPEND_TIME if by_broker else 0
    size = HEADER_SIZE + len(data) - 12
    header = BatchHeader(base_offset, size, 0, 2, 0, attributes, 0, base_timestamp, 44, -1, -1, -1, count, 0)
    batch = bytes(HEADER_SIZE) + data

    def read(call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            found = call(*arguments)
            return found if isinstance(found, tuple) else list(found)
        except KafkaError as problem:
            return problem.code

    walked = read(iter_records, batch, header)
    found = read(decode, batch, header)
    assert found == (
        [each._replace(headers=list(each.headers)) if each.headers else each for each in walked]
        if isinstance(walked, list)
        else walked
    )
    whole = read(decode_whole, data, header)
    assert whole == found or not isinstance(whole, list)  # nothing may lie behind the last record
    keys = read(decode_keys, data, header)
    assert keys == (
        ([each.key for each in whole], [each.offset for each in whole]) if isinstance(whole, list) else whole
    )


def test_a_count_that_lies_takes_no_memory(compiled: ModuleType) -> None:
    data = encode_record(0, 0, None, b"v")
    for code in (compiled, python_records):
        position, columns = code.read_columns(data, 0, len(data), (1 << 31) - 1, 0, 0, None, KEYS | VALUES)
        assert position == len(data) and columns == ([0], [0], [None], [b"v"], [])
        with pytest.raises(ValueError, match="no 2147483647 records"):
            code.find_starts(data, 0, len(data), (1 << 31) - 1)
        assert code.skip_records(data, 0, len(data), (1 << 31) - 1, 0, 0, 5, LEAST_TIMESTAMP) == (len(data), 1)


def test_records_that_change_under_their_reader(compiled: ModuleType) -> None:
    """Answers may be wrong then, but no byte beyond the buffer is read and nothing breaks."""
    data = bytearray(encode_record(0, 0, b"k" * 20, b"v" * 20, [("h", b"x")] * 3) * 200)
    view, ended = memoryview(data), threading.Event()

    def change() -> None:
        number = 0
        while not ended.is_set():
            number = (number * 1103515245 + 12345) % (1 << 31)
            view[number % len(data)] = number >> 16 & 0xFF

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            outcome(compiled.read_columns, view, 0, len(view), 200, 0, 0, None, EVERYTHING)
            outcome(compiled.find_starts, view, 0, len(view), 200)
            outcome(compiled.find_places, view, 0, len(view), 200, 0, 0)
            compiled.check_in_order(view, 0, len(view), 200, 10)
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("size", [100, 600_000])
def test_large_batches_are_checked_too(compiled: ModuleType, size: int) -> None:
    """Those for which the interpreter is released."""
    data = b"".join(encode_record(number, number, b"k", bytes(size)) for number in range(4))
    starts = [0, *(len(data) // 4 * n for n in range(1, 4))]
    assert compiled.check_in_order(data, 0, len(data), 4, 0) == (0, 3, True)
    assert compiled.check_in_order(data, 0, len(data), 3, 0) is None
    assert compiled.find_starts(data, 0, len(data), 4).tolist() == starts
    found = [each.tolist() for each in compiled.find_places(data, 0, len(data), 9, 5, 7)[1]]
    assert found[:2] == [[5, 6, 7, 8], [7, 8, 9, 10]] and found[-1] == [*starts[1:], len(data)]
    assert compiled.skip_records(data, 0, len(data), 4, 0, 0, 2, 0) == (starts[2], 2)


@pytest.mark.parametrize("variable", ["", "1"])
def test_the_variable_chooses_python(variable: str) -> None:
    program = "from kafkalite.protocol.record_batches import record_code; print(record_code.IS_COMPILED)"
    environment = os.environ | {VARIABLE: variable}
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == str(not variable and find_spec(COMPILED) is not None)


def test_without_compiled_code_python_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, COMPILED, None)
    assert record_code.load_code({}) is python_records
    assert record_code.load_code({VARIABLE: "1"}) is python_records


def test_a_module_of_another_abi_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python without the global lock finds the file of one that has it, and fails in its initialisation."""
    load = record_code.import_module

    def refuse(name: str) -> ModuleType:
        if name == COMPILED:
            raise SystemError("initialization returned an uninitialized object")
        return load(name)

    monkeypatch.setattr(record_code, "import_module", refuse)
    assert record_code.load_code({}) is python_records


def test_a_module_that_was_compiled_of_an_older_source_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout goes on to a later commit, and nobody has compiled again."""
    older = ModuleType(COMPILED)
    older.__dict__.update({name: None for name in record_code._FUNCTIONS if name != "digest_records"})
    monkeypatch.setitem(sys.modules, COMPILED, older)
    assert record_code.load_code({}) is python_records
    older.__dict__["digest_records"] = None
    assert record_code.load_code({}) is older


strings = st.lists(st.none() | st.binary(max_size=40), max_size=12)


def column_of(found: list[bytes | None]) -> tuple[bytes, bytes, bytes | None]:
    """Return bounds, data and nulls."""
    bounds = array("i", [0])
    for each in found:
        bounds.append(bounds[-1] + len(each or b""))
    nulls = bytes(each is None for each in found) if None in found else None
    return bounds.tobytes(), b"".join(each or b"" for each in found), nulls


@given(strings, st.data())
def test_hashes_of_rows(compiled: ModuleType, keys: list[bytes | None], data: st.DataObject) -> None:
    count = len(keys)
    numbers = [
        array(kind, data.draw(st.lists(st.integers(-(1 << bits), (1 << bits) - 1), min_size=count, max_size=count)))
        for kind, bits in (("i", 31), ("q", 63), ("q", 63))
    ]
    values = data.draw(st.lists(st.none() | st.binary(max_size=40), min_size=count, max_size=count))
    given_columns = (count, *numbers, *column_of(keys), *column_of(values))
    hashes = compiled.hash_rows(*given_columns)
    assert hashes == python_records.hash_rows(*given_columns)
    rows = zip(*numbers, keys, values, strict=True)
    assert hashes == b"".join(python_records.hash_row(*row) for row in rows)
    place, damage = data.draw(st.integers(1, 9)), data.draw(st.binary(max_size=60))
    damaged = (*given_columns[:place], damage, *given_columns[place + 1 :])
    assert outcome(compiled.hash_rows, *damaged) == outcome(python_records.hash_rows, *damaged)


def test_hashes_of_no_number_of_rows(compiled: ModuleType) -> None:
    for code in (compiled, python_records):
        with pytest.raises(ValueError, match="-1 rows"):
            code.hash_rows(-1, b"", b"", b"", b"", b"", None, b"", b"", None)


@given(st.lists(st.none() | st.binary(max_size=20), max_size=12), st.integers(-1, 300))
def test_partitions_of_keys(compiled: ModuleType, keys: list[bytes | None], count: int) -> None:
    found = outcome(compiled.choose_partitions, keys, count)
    assert found == outcome(python_records.choose_partitions, keys, count)
    if count > 0:
        assert found.result == [None if key is None else record_code.choose_partition(key, count) for key in keys]
        for key in keys:
            one = outcome(compiled.choose_partition, key, count)
            assert one == outcome(python_records.choose_partition, key, count) and bool(one.error) is (key is None)
