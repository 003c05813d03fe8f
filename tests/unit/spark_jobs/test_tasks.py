"""Tasks by offsets and bytes: they are the ranges and nothing else, none too large, all about equal, the same at every repetition."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ranges import OffsetRange
from spark_jobs.tasks import (
    Task,
    TaskLimits,
    bytes_per_offset,
    fill_tasks,
    ranges_of,
    tasks_from_json,
    tasks_to_json,
)

MIB = 1 << 20
RANGES = st.dictionaries(st.integers(0, 20), st.tuples(st.integers(0, 10**6), st.integers(0, 10**5)), max_size=12).map(
    lambda sizes: [OffsetRange("t", p, start, start + size) for p, (start, size) in sorted(sizes.items())]
)
SIZES = st.dictionaries(st.integers(0, 20), st.integers(1, 10**6), max_size=12)
LIMITS = st.builds(TaskLimits, st.integers(500, 10**6), st.none() | st.integers(10**6, 10**9))


def load(task: Task, limits: TaskLimits, sizes: dict[int, int]) -> float:
    """How full a task is."""
    return sum(each.size / limits.offsets_of(sizes.get(each.partition)) for each in task)


@given(RANGES, LIMITS, SIZES)
def test_tasks_are_the_ranges_in_their_order(
    ranges: list[OffsetRange], limits: TaskLimits, sizes: dict[int, int]
) -> None:
    tasks = fill_tasks(ranges, limits, sizes)
    pieces = [one for task in tasks for one in task]
    assert all(task and each.size > 0 for task in tasks for each in task)
    position = 0
    for whole in (each for each in ranges if each.size):
        start = whole.start
        while start < whole.end:
            assert (pieces[position].partition, pieces[position].start) == (whole.partition, start)
            start = pieces[position].end
            position += 1
        assert start == whole.end
    assert position == len(pieces)
    assert ranges_of(tasks) == {each.partition: (each.start, each.end) for each in ranges if each.size}
    assert fill_tasks(ranges, limits, sizes) == tasks


@given(RANGES, LIMITS, SIZES)
def test_no_task_is_too_full(ranges: list[OffsetRange], limits: TaskLimits, sizes: dict[int, int]) -> None:
    for task in fill_tasks(ranges, limits, sizes):
        assert load(task, limits, sizes) <= 1 + 1e-6 or (len(task) == 1 and task[0].size == 1)


@given(RANGES, st.integers(500, 10**6))
def test_there_are_no_more_tasks_than_needed(ranges: list[OffsetRange], most: int) -> None:
    """Where all offsets count the same, however skewed the partitions are."""
    tasks = fill_tasks(ranges, TaskLimits(most), {})
    total = sum(each.size for each in ranges)
    assert len(tasks) == math.ceil(total / most)
    found = [sum(each.size for each in task) for task in tasks]
    assert not found or (max(found) <= most and min(found) >= total // len(tasks) - len(ranges) * len(tasks))


def test_a_skewed_partition_is_divided_and_small_ones_share_a_task() -> None:
    ranges = [OffsetRange("t", p, 0, 10) for p in range(99)] + [OffsetRange("t", 99, 0, 1_000_000)]
    tasks = fill_tasks(ranges, TaskLimits(250_000), {})
    assert [sum(each.size for each in task) for task in tasks] == [200_198] * 5
    assert len(tasks[0]) == 100 and all(len(task) == 1 and task[0].partition == 99 for task in tasks[1:])


def test_large_records_fill_a_task_before_the_offsets_do() -> None:
    ranges = [OffsetRange("t", 0, 0, 1_000_000), OffsetRange("t", 1, 0, 1_000)]
    tasks = fill_tasks(ranges, TaskLimits(250_000, 100 * MIB), {0: 100, 1: MIB})
    assert [[(each.partition, each.size) for each in task] for task in tasks[:3]] == [[(0, 250_000)]] * 3
    assert sum(each.partition == 1 for task in tasks for each in task) == 10
    assert max(each.size for task in tasks for each in task if each.partition == 1) == 100


def test_what_fills_a_task() -> None:
    assert TaskLimits(1000).offsets_of(10**9) == 1000
    assert TaskLimits(1000, 5000).offsets_of(None) == 1000
    assert TaskLimits(1000, 5000).offsets_of(100) == 50
    assert TaskLimits(1000, 5000).offsets_of(10**6) == 1, "an offset that is larger than a task has one of its own"


def test_the_average_of_a_log() -> None:
    assert bytes_per_offset(1001, 10, 110) == 11
    assert bytes_per_offset(1, 0, 100) == 1, "a log that compaction has left little of"
    assert bytes_per_offset(0, 0, 100) is bytes_per_offset(100, 5, 5) is None


def test_tasks_travel_as_text() -> None:
    tasks = fill_tasks([OffsetRange("t", p, p, 1000 * p) for p in range(5)], TaskLimits(700), {})
    assert tasks_from_json("t", tasks_to_json(tasks)) == tuple(tasks)
    assert tasks_from_json("t", "[]") == ()


@pytest.mark.parametrize(
    "text", ["{}", "[[]]", "[[[0, 1]]]", "[[[0, 5, 5]]]", "[[[0, -1, 5]]]", '[[["0", 1, 5]]]', "[1", "[[1]]"]
)
def test_text_that_is_no_tasks(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        tasks_from_json("t", text)
