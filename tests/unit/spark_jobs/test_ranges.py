"""Offset ranges: bounds that contradict each other, splitting into tasks, rationing to triggers, JSON."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.client import TopicPartition
from spark_jobs.ranges import (
    EarliestOffsets,
    GivenOffsets,
    GivenTimestamps,
    LatestOffsets,
    OffsetRange,
    OffsetsError,
    OneTimestamp,
    check_bounds,
    check_covers,
    offsets_from_json,
    offsets_to_json,
    parse_offsets,
    ranges_between,
    ration_offsets,
    split_ranges,
    waiting_offsets,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["t", "u.v", "weird-topic_1"]), st.integers(0, 20))
RANGES = st.dictionaries(PARTITIONS, st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=8).map(
    lambda sizes: [OffsetRange(*each, start, start + size) for each, (start, size) in sorted(sizes.items())]
)


def covered(tasks: list[OffsetRange]) -> dict[TopicPartition, list[tuple[int, int]]]:
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for each in tasks:
        found.setdefault(each.topic_partition, []).append((each.start, each.end))
    return found


@given(RANGES, st.dictionaries(PARTITIONS, st.integers(1000, 10**6)), st.none() | st.integers(1000, 10**6))
def test_partitions_may_have_bounds_of_their_own(
    ranges: list[OffsetRange], most: dict[TopicPartition, int], max_records: int | None
) -> None:
    tasks = split_ranges(ranges, None, max_records, most)
    assert all(each.size <= most.get(each.topic_partition, each.size) for each in tasks)
    assert max_records is None or all(each.size <= max_records for each in tasks)
    assert sum(each.size for each in tasks) == sum(each.size for each in ranges)
    assert split_ranges(ranges, None, max_records, {}) == split_ranges(ranges, None, max_records)


@given(RANGES, st.none() | st.integers(1, 200), st.none() | st.integers(1000, 10**6))
def test_tasks_are_the_ranges_and_nothing_else(
    ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    tasks = split_ranges(ranges, min_partitions, max_records)
    assert all(each.size > 0 for each in tasks)
    pieces = covered(tasks)
    assert set(pieces) == {each.topic_partition for each in ranges if each.size}
    for whole in ranges:
        spans = pieces.get(whole.topic_partition, [])
        if spans:
            assert spans[0][0] == whole.start and spans[-1][1] == whole.end
        assert all(before[1] == after[0] for before, after in pairwise(spans))
        sizes = {end - start for start, end in spans}
        assert not sizes or max(sizes) - min(sizes) <= 1 or max_records is not None
    if max_records is not None:
        assert all(each.size <= max_records for each in tasks)
    if min_partitions is None and max_records is None:
        assert len(tasks) == len(pieces)


def test_one_large_partition_is_shared_by_many_tasks_and_small_ones_stay_whole() -> None:
    ranges = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 500, 10_500), OffsetRange("t", 2, 7, 7)]
    tasks = split_ranges(ranges, min_partitions=6)
    assert tasks[0] == OffsetRange("t", 0, 0, 10)
    assert tasks[1:] == [OffsetRange("t", 1, 500 + 2000 * n, 2500 + 2000 * n) for n in range(5)]


def test_there_are_no_more_tasks_than_offsets() -> None:
    assert split_ranges([OffsetRange("t", 0, 3, 5)], min_partitions=50) == [
        OffsetRange("t", 0, 3, 4),
        OffsetRange("t", 0, 4, 5),
    ]


def test_enough_partitions_are_not_split() -> None:
    ranges = [OffsetRange("t", 0, 0, 9), OffsetRange("t", 1, 0, 1_000_000)]
    assert split_ranges(ranges, min_partitions=2) == ranges


@given(
    st.integers(1, 10**6),
    st.dictionaries(PARTITIONS, st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)), max_size=8),
)
def test_a_ration_is_kept_and_nobody_starves(most: int, partitions: dict[TopicPartition, tuple[int, int]]) -> None:
    start = {each: first for each, (first, _) in partitions.items()}
    latest = {each: first + size for each, (first, size) in partitions.items()}
    ends = ration_offsets(most, start, latest)
    assert set(ends) == set(latest)
    assert all(start[each] <= ends[each] <= latest[each] for each in latest)
    waiting = [each for each in latest if latest[each] > start[each]]
    assert waiting_offsets(start, ends) <= most + len(waiting), "a share below one is one"
    assert all(ends[each] > start[each] for each in waiting)
    if waiting_offsets(start, latest) <= most:
        assert ends == latest


def test_a_ration_is_shared_out_in_proportion() -> None:
    start, latest = {T0: 0, T1: 100}, {T0: 900, T1: 200}
    assert ration_offsets(100, start, latest) == {T0: 90, T1: 110}


def test_an_end_before_the_start_is_not_rationed_away() -> None:
    assert ration_offsets(10, {T0: 50, T1: 0}, {T0: 5, T1: 100}) == {T0: 5, T1: 10}


@given(st.dictionaries(PARTITIONS, st.integers(0, 2**62)))
def test_offsets_survive_json(offsets: dict[TopicPartition, int]) -> None:
    text = json.dumps(offsets_to_json(offsets))
    assert offsets_from_json(json.loads(text)) == offsets == parse_offsets(text)
    assert json.dumps(offsets_to_json(dict(reversed(offsets.items())))) == text


@pytest.mark.parametrize(
    "text", ["", "5", "[]", '{"t": 5}', '{"t": {"0": "5"}}', '{"t": {"x": 5}}', '{"t": {"0": true}}']
)
def test_text_that_is_no_offsets(text: str) -> None:
    with pytest.raises(ValueError):
        parse_offsets(text)


def test_ranges_leave_out_what_is_empty() -> None:
    assert ranges_between({T0: 5, T1: 3, U0: 0}, {T0: 9, T1: 3, U0: 1}) == [
        OffsetRange("t", 0, 5, 9),
        OffsetRange("u", 0, 0, 1),
    ]


def test_a_range_that_ends_before_it_starts_is_an_error() -> None:
    with pytest.raises(
        OffsetsError, match="resolved start offset 9 is greater than the resolved end offset 5 for topic t partition 1"
    ):
        ranges_between({T0: 0, T1: 9}, {T0: 0, T1: 5})


def test_bounds_that_contradict_each_other() -> None:
    with pytest.raises(OffsetsError, match=r"start offset: \[t-0\], topic-partitions for end offset: \[t-0, t-1\]"):
        check_bounds(GivenOffsets({T0: 1}), GivenOffsets({T0: 1, T1: 1}))
    with pytest.raises(OffsetsError, match="start offset 5 is greater than the end offset 3 for topic t partition 0"):
        check_bounds(GivenOffsets({T0: 5}), GivenOffsets({T0: 3}))
    with pytest.raises(OffsetsError, match="same topic-partitions"):
        check_bounds(GivenTimestamps({T0: 1}), GivenTimestamps({T1: 1}))
    with pytest.raises(
        OffsetsError, match="start timestamp 5 is greater than the end timestamp 3 for topic t partition 0"
    ):
        check_bounds(GivenTimestamps({T0: 5}), GivenTimestamps({T0: 3}))
    with pytest.raises(OffsetsError, match="start timestamp 5 is greater than the end timestamp 4"):
        check_bounds(OneTimestamp(5), OneTimestamp(4))


def test_bounds_that_can_be() -> None:
    check_bounds(GivenOffsets({T0: 5, T1: -2}), GivenOffsets({T0: -1, T1: 3}))
    check_bounds(GivenOffsets({T0: 5}), GivenTimestamps({T1: 3}))
    check_bounds(EarliestOffsets(), LatestOffsets())
    check_bounds(OneTimestamp(5), OneTimestamp(5))


def test_bounds_name_all_partitions_that_are_read() -> None:
    check_covers([T0, T1], [T1, T0], "start offsets")
    with pytest.raises(
        OffsetsError, match=r"Kafka start offsets don't match.*Specified: \[t-0\] Assigned: \[t-0, t-1\]"
    ):
        check_covers([T0], [T0, T1], "start offsets")
