"""Digests of records: what they depend on, what they do not, and which accidents they show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mmh3 import mmh3_x64_128_digest

from kafkalite.portions import in_one_go
from kafkalite.protocol.record_batches.legacy_builder import MessageSetBuilder, build_wrapper
from kafkalite.protocol.record_batches.record_code import IS_COMPILED
from kafkalite.protocol.record_batches.record_digest import (
    ALL_TIMES,
    NO_RECORDS,
    RangeDigest,
    Times,
    add_digests,
    count_units,
    digest_at_once,
    digest_batch,
    digest_records,
    hash_record,
    is_small,
    times_of,
)
from kafkalite.protocol.record_batches.records import (
    HEADER_SIZE,
    BatchHeader,
    NewRecord,
    Record,
    RecordHeader,
    build_batch,
    header_at,
    iter_records,
    set_max_timestamp_in_place,
)

ALL = 1 << 62
RECORDS = [
    Record(0, 1000, b"key", b"value"),
    Record(1, 1001, None, b"v2", (RecordHeader("name", b"content"), RecordHeader("", None))),
    Record(2, 999, b"", None),
    Record(3, -1, b"key", b"value"),
]


def digest(batch: Any, start: int = 0, end: int = ALL, position: int = 0) -> RangeDigest:
    header = header_at(batch, position)
    assert header is not None
    found = in_one_go(digest_batch(batch, header, start, end))
    if is_small(header):
        reached, at_once = digest_at_once(batch, header.position, header.end, start, end)
        assert (reached, at_once) in ((header.end, found), (header.position, NO_RECORDS))
    return found


def digest_of(records: Sequence[Record]) -> RangeDigest:
    return in_one_go(digest_records(records, 0, ALL))


def test_the_encoding_of_a_record() -> None:
    """Another program can compute fingerprints from this."""
    plain = bytes.fromhex("0000000000000007 00000000000003e8 00000003 00000002 6b6579 7631")
    with_headers = bytes.fromhex(
        "0000000000000000 ffffffffffffffff ffffffff 00000000 00000002 c3bc 00000001 31 00000000 ffffffff"
    )
    for encoded, record in (
        (plain, (7, 1000, b"key", b"v1", ())),
        (with_headers, (0, -1, None, b"", (("ü", b"1"), ("", None)))),
    ):
        assert hash_record(*record) == int.from_bytes(mmh3_x64_128_digest(encoded), "little")


bodies = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), bodies), max_size=3)
new_records = st.builds(NewRecord, bodies, bodies, st.integers(0, 1 << 50), headers)
ascii_records = new_records.filter(lambda new: all(name.isascii() for name, _ in new.headers))


def as_records(new: Sequence[NewRecord], base: int = 0) -> list[Record]:
    return [
        Record(base + number, each.timestamp, each.key, each.value, tuple(RecordHeader(*h) for h in each.headers))
        for number, each in enumerate(new)
    ]


@pytest.mark.parametrize("value_bytes", [*range(36), 1000])
def test_a_record_of_any_length_has_the_hash_of_its_encoding(value_bytes: int) -> None:
    """Compiled code hashes a record where it lies, in parts: its key, value and headers may end anywhere in a block of 16 bytes."""
    value = bytes(range(256)) * 4
    for key_bytes in range(36):
        for name_bytes in range(0, 36, 5):
            for headers in ([], [("n" * name_bytes, value[7 : 7 + key_bytes]), ("", None)]):
                new = NewRecord(value[:key_bytes], value[3 : 3 + value_bytes], 1 << 40, headers)
                found = digest(build_batch([new], base_offset=(1 << 40) + 77))
                assert found.fingerprint == hash_record((1 << 40) + 77, 1 << 40, new.key, new.value, headers)


def test_a_digest_counts_records_offsets_and_bytes() -> None:
    total = sum(hash_record(*each) for each in RECORDS) % (1 << 128)
    assert digest_of(RECORDS) == RangeDigest(4, 0, 3, -1, 1001, 8 + 2 + 4 + 7 + 0 + 8, total)
    assert digest_of([]) == add_digests([]) == NO_RECORDS == RangeDigest(0, -1, -1, (1 << 63) - 1, -(1 << 63), 0, 0)
    assert in_one_go(digest_records(RECORDS, 1, 3)) == digest_of(RECORDS[1:3])


def test_small_batches_are_digested_at_once() -> None:
    new = [NewRecord(b"key", b"value", 1000)] * 4096
    batches = [build_batch(new), build_batch([*new, new[0]]), build_batch(new[:5], codec=3)]
    assert [is_small(BatchHeader.read(each)) for each in batches] == [IS_COMPILED, False, False]
    assert [count_units(*each) for each in ((1, 127), (1, 128), (7, 256), (8, 256))] == [1, 2, 3, 4]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(ascii_records, min_size=1, max_size=5), min_size=1, max_size=4), st.integers(0, 20), st.data())
def test_small_batches_that_follow_each_other(groups: list[list[NewRecord]], start: int, data: st.DataObject) -> None:
    """Up to the first that Python has to read; nothing of that one counts."""
    batches, base, readable = bytearray(b"before"), 0, IS_COMPILED
    expected: list[Record] = []
    reached = len(batches)
    for number, group in enumerate(groups, 1):
        faults = "compressed", "malformed", "cut" if number == len(groups) else None
        fault = data.draw(st.sampled_from((None, None, *faults)), "fault")
        batch = build_batch(group, base_offset=base, codec=3 if fault == "compressed" else 0)
        if fault == "malformed":
            batch[HEADER_SIZE] = 1  # a record of length -1
        readable &= fault is None
        batches += batch[:-1] if fault == "cut" else batch
        if readable:
            expected += as_records(group, base)
            reached = len(batches)
        base += len(group)
    end, since, until = (data.draw(st.integers(0, 20)), *sorted(data.draw(st.tuples(*[st.integers(0, 1 << 50)] * 2))))
    for times in (ALL_TIMES, Times(since, until)):
        wanted = [each for each in expected if start <= each.offset < end]
        found = digest_at_once(batches, len(b"before"), len(batches), start, end, times)
        assert found == (reached, in_one_go(digest_records(wanted, 0, ALL, times)))


def test_records_of_a_span_of_time() -> None:
    """The bound before counts, the one behind does not."""
    found = in_one_go(digest_records(RECORDS, 0, ALL, Times(999, 1001)))
    assert found == digest_of([RECORDS[0], RECORDS[2]])
    assert (found.least_timestamp, found.largest_timestamp) == (999, 1000)
    assert [found.is_within(Times(*each)) for each in ((999, 1001), (1000, 1001), (999, 1000))] == [True, False, False]
    assert [found.is_outside(Times(*each)) for each in ((0, 999), (1001, 2000), (1000, 1001))] == [True, True, False]
    assert NO_RECORDS.is_within(ALL_TIMES) and not NO_RECORDS.is_outside(ALL_TIMES)
    assert times_of(5, 9) == Times(5, 9) and times_of(ALL_TIMES.since, ALL_TIMES.until - 1) == ALL_TIMES


@settings(max_examples=150, deadline=None)
@given(st.lists(new_records, min_size=1, max_size=40), st.integers(0, 4), st.data())
def test_it_depends_neither_on_batches_nor_on_codecs(new: list[NewRecord], codec: int, data: st.DataObject) -> None:
    expected = digest_of(as_records(new, 5))
    assert digest(build_batch(new, codec=codec, base_offset=5)) == expected
    cut = data.draw(st.integers(0, len(new)))
    parts = [(new[:cut], 5), (new[cut:], 5 + cut)]
    found = [digest(build_batch(part, base_offset=base, producer_id=9)) for part, base in parts if part]
    assert sum(found, NO_RECORDS) == sum(reversed(found), NO_RECORDS) == add_digests(found) == expected
    start, end = data.draw(st.integers(0, 50)), data.draw(st.integers(0, 50))
    assert digest(build_batch(new, codec=codec, base_offset=5), start, end) == digest_of(
        [each for each in as_records(new, 5) if start <= each.offset < end]
    )


def changed(index: int, **fields: Any) -> list[Record]:
    found = list(RECORDS)
    found[index] = found[index]._replace(**fields)
    return found


@pytest.mark.parametrize(
    "other",
    [
        changed(0, value=b"valuf"),
        changed(0, key=b"keyv", value=b"alue"),
        changed(0, key=None, value=b"keyvalue"),
        changed(2, key=None),
        changed(2, value=b""),
        changed(0, timestamp=1001),
        changed(0, headers=(RecordHeader("", b""),)),
        changed(1, headers=RECORDS[1].headers[::-1]),
        changed(1, headers=(RecordHeader("namec", b"ontent"), RECORDS[1].headers[1])),
        changed(3, offset=4),
        RECORDS[1:],
        [*RECORDS[:2], RECORDS[3]],
        [*RECORDS, RECORDS[0]],
        [*RECORDS, RECORDS[2], RECORDS[2]],
        [RECORDS[0]._replace(offset=3), *RECORDS[1:3], RECORDS[3]._replace(offset=0)],
        [RECORDS[0]._replace(timestamp=-1), *RECORDS[1:3], RECORDS[3]._replace(timestamp=1000)],
    ],
    ids=range(16),
)
def test_an_accident_changes_the_fingerprint(other: list[Record]) -> None:
    """A record changed, left out, doubled; two that have changed places."""
    assert digest_of(other).fingerprint != digest_of(RECORDS).fingerprint


def test_a_pair_that_is_there_twice_does_not_cancel_out() -> None:
    assert digest_of([RECORDS[0], RECORDS[0]]).fingerprint not in (0, digest_of([RECORDS[0]]).fingerprint)


def test_order_does_not_matter() -> None:
    assert digest_of(RECORDS[::-1]) == digest_of(RECORDS)


def test_the_time_of_the_append_counts_where_the_broker_sets_it() -> None:
    batch = build_batch([NewRecord(b"k", b"v", 10), NewRecord(b"k", b"w", 20)])
    set_max_timestamp_in_place(batch, BatchHeader.read(batch), 77, log_append_time=True)
    assert digest(batch) == digest_of([Record(0, 77, b"k", b"v"), Record(1, 77, b"k", b"w")])


def test_names_of_headers_that_are_no_text_count_as_readers_see_them() -> None:
    batch = build_batch([NewRecord(b"k", b"v", 10), NewRecord(b"k", b"w", 20, [("na", b"c")])])
    batch = bytearray(batch).replace(b"na", b"n\xff")
    assert digest(batch) == digest_of(list(iter_records(batch, BatchHeader.read(batch))))
    assert digest(batch) == digest_of(
        [Record(0, 10, b"k", b"v"), Record(1, 20, b"k", b"w", (RecordHeader("n�", b"c"),))]
    )


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 3)])
def test_messages_of_older_formats_count_as_their_records(magic: int, codec: int) -> None:
    records = [Record(number, 10 + number if magic else -1, b"k", b"%d" % number) for number in range(3)]
    builder = MessageSetBuilder(magic, 0, 0)
    builder.add(records)
    data = builder.build()
    if codec:
        data = build_wrapper(magic, codec, codec, 2, 12, data)
        assert digest(data) == digest_of(records)
    else:
        assert digest(data) == digest_of(records[:1])
        assert digest(data, position=len(data) // 3) == digest_of(records[1:2])
