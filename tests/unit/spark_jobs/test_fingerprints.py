"""Fingerprints of sets of records, and what an audit makes of them."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.client.audit_hashes import hash_audited_record, hash_audited_records
from spark_jobs.batch.comparison import Facts, Place, Report, find_differences
from spark_jobs.batch.fingerprints import COLUMNS, LANES, fingerprint, hashed_batches

Record = tuple[int, int, int, bytes | None, bytes | None, Any]
FIELDS = st.none() | st.binary(max_size=6)
HEADERS = st.none() | st.lists(st.fixed_dictionaries({"key": st.text("ab", max_size=3), "value": FIELDS}), max_size=2)
RECORDS = st.tuples(st.integers(0, 3), st.integers(0, 99), st.integers(0, 99), FIELDS, FIELDS, HEADERS)
SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def fingerprint_of(records: list[Record], batch_rows: int = 1000) -> str:
    table = pa.Table.from_pylist([dict(zip(COLUMNS, record, strict=True)) for record in records], SCHEMA)
    sums = [0] * len(LANES)
    for batch in hashed_batches(table.to_batches(batch_rows), ["offset"]):
        for number, lane in enumerate(LANES):
            sums[number] += sum(batch.column(lane).to_pylist())
    return fingerprint(sums)


@given(st.lists(RECORDS, max_size=20), st.randoms(use_true_random=False), st.integers(1, 5))
def test_order_and_batches_do_not_matter(records: list[Record], chance: random.Random, rows: int) -> None:
    shuffled = chance.sample(records, len(records))
    assert fingerprint_of(records) == fingerprint_of(shuffled, rows)


@given(st.lists(RECORDS, min_size=1, max_size=20))
def test_a_record_more_or_less_matters(records: list[Record]) -> None:
    assert fingerprint_of(records) != fingerprint_of(records[1:])
    assert fingerprint_of(records) != fingerprint_of([*records, records[0]])


@given(st.lists(RECORDS, max_size=20), st.integers(0, 3))
def test_hashes_are_those_of_each_record(records: list[Record], begin: int) -> None:
    table = pa.Table.from_pylist([dict(zip(COLUMNS, record, strict=True)) for record in records], SCHEMA)
    for batch in table.to_batches():
        hashes = hash_audited_records(*(batch.slice(begin).column(name) for name in COLUMNS))
        assert hashes.tobytes() == b"".join(hash_audited_record(*record) for record in records[begin:])


@given(RECORDS, RECORDS)
def test_different_records_have_different_hashes(one: Record, other: Record) -> None:
    plain = [(*record[:5], record[5] or None) for record in (one, other)]
    assert (hash_audited_record(*one) == hash_audited_record(*other)) == (plain[0] == plain[1])


def test_fingerprints_stay_what_they_are() -> None:
    """Archives keep them for years."""
    record = (1, 2, 3, b"key", None, [{"key": "h", "value": b"v"}])
    assert hash_audited_record(*record).hex() == KNOWN_HASH
    assert fingerprint([1 << 40, 5, 0, (1 << 32) + 1]) == "00000000000000050000000000000001"


KNOWN_HASH = "60fa7261068e03213cb322d92dcc6e6f"

DAY = date(2013, 6, 15)
FACTS = Facts(3, 10, 14, 1000, 2000, 1, "ab")


def place(partition: int = 0, hour: int = 0) -> Place:
    return Place("t", DAY, 1371254400000 + hour * 3_600_000, partition)


def test_gaps_are_offsets_between_first_and_last() -> None:
    assert FACTS.gaps == 2


def test_equal_sides_do_not_differ() -> None:
    assert find_differences({place(): FACTS}, {place(): FACTS}) == []


@pytest.mark.parametrize(
    ("log", "archive", "problem"),
    [
        ({place(): FACTS}, {}, "3 records of the log are not in the archive"),
        ({}, {place(): FACTS}, "3 records of the archive are not in the log"),
        (
            {place(): FACTS},
            {place(): Facts(4, 10, 14, 1000, 2000, 1, "cd")},
            "records 3 in the log, 4 in the archive, fingerprint ab in the log, cd in the archive",
        ),
    ],
)
def test_what_differs_is_said(log: dict[Place, Facts], archive: dict[Place, Facts], problem: str) -> None:
    (difference,) = find_differences(log, archive)
    assert (difference.place, difference.problem) == ("t-0 2013-06-15T00:00Z", problem)


def test_report_has_a_row_for_every_place() -> None:
    report = Report("t", DAY, {place(): FACTS, place(1): FACTS}, {place(): FACTS, place(0, 2): FACTS}, pending=4)
    rows = report.rows()
    assert [
        (row["partition"], row["hour"], row["records"], row["archived"], row["differs"] is None) for row in rows
    ] == [
        (0, "2013-06-15T00:00Z", 3, 3, True),
        (1, "2013-06-15T00:00Z", 3, 0, False),
        (0, "2013-06-15T02:00Z", 3, 3, False),
    ]
    document = report.to_dict()
    assert (document["records"], document["pending"], len(document["differences"])) == (6, 4, 2)
