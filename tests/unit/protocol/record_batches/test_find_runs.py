"""Runs of batches that brokers digest without Python's look at each: found by compiled code as by the headers that Python reads."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.protocol.record_batches import python_records
from kafkalite.protocol.record_batches.records import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    assemble_batch,
)
from tests.conftest import not_run

COMPILED: Final = "kafkalite.protocol.record_batches._records"


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    if find_spec(COMPILED) is None:
        not_run("compiled code for records is not there: an installation builds it where there is a C compiler")
    return import_module(COMPILED)


def runs_by_headers(data: bytes, within: int, behind_offset: int, limits: tuple[int, int, int]) -> Any:
    """What `find_runs` says, found otherwise: by the headers that Python reads."""
    records_max, bytes_max, batches_max = limits
    headers: list[BatchHeader] = []
    position = 0
    while position < within and position + HEADER_SIZE <= len(data):
        header = BatchHeader.read(data, position)
        is_plain = not header.attributes & (CODEC_MASK | TRANSACTIONAL | CONTROL) and header.magic == 2
        if not is_plain or not HEADER_SIZE <= header.size <= bytes_max or not 0 < header.records_count <= records_max:
            return None
        if header.end > len(data) or header.base_offset >= behind_offset:
            break
        headers.append(header)
        position = header.end
    runs: list[list[BatchHeader]] = []
    for header in headers:
        if not runs or len(runs[-1]) == batches_max or sum(h.records_count for h in [*runs[-1], header]) > records_max:
            runs.append([])
        runs[-1].append(header)
    return [
        (
            run[0].position,
            run[-1].end,
            sum(h.records_count for h in run),
            [(h.position + 21, h.end, h.crc) for h in run],
        )
        for run in runs
    ] or None


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=6),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2),
    st.tuples(st.integers(0, 500), st.integers(-1, 40) | st.sampled_from((-(1 << 63), (1 << 63) - 1))),
    st.tuples(st.integers(1, 12), st.integers(61, 110), st.integers(1, 3)),
    st.integers(0, 80),
)
def test_batches_that_need_no_more_are_found_by_their_headers(
    compiled: ModuleType,
    batches: list[tuple[int, int]],
    damages: list[tuple[int, int]],
    bounds: tuple[int, int],
    limits: tuple[int, int, int],
    cut: int,
) -> None:
    """Whatever their headers say: length, count, offset, format, kind; and of the last one a part may be missing."""
    data, base = bytearray(), 0
    for size, count in batches:
        fields = {"base_timestamp": 1, "max_timestamp": 1, "base_offset": base, "leader_epoch": 0, "attributes": 0}
        data += assemble_batch(
            bytes(size),
            records_count=count,
            last_offset_delta=count - 1,
            **fields,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
        )
        base += count
    for position, octet in damages:
        if position < len(data):
            data[position] = octet
    given_data = bytes(data[: len(data) - cut] if cut < 40 else data)
    found = compiled.find_runs(given_data, 0, len(given_data), *bounds, *limits)
    assert found == runs_by_headers(given_data, *bounds, limits)
    assert python_records.find_runs(given_data, 0, len(given_data), *bounds, *limits) is None
    for code in (compiled, python_records):
        with pytest.raises(ValueError, match="no bytes"):
            code.find_runs(given_data, 0, len(given_data) + 1, *bounds, *limits)
