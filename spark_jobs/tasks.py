"""The tasks of a query: which offsets each of them reads, so that all have about the same to do, however skewed partitions are. Pure.

A task is full with so many offsets, or with so many bytes of the log, whichever comes first. Brokers say at no cost how many bytes a
partition's log has (DescribeLogDirs), so the bytes of an offset are the partition's average; digests of ranges (DigestRecords) would be
exact, but the broker reads the records for them. Large partitions are cut, small neighbours share a task.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from spark_jobs.ranges import OffsetRange

Task: TypeAlias = tuple[OffsetRange, ...]
"""Ranges that one task reads, in this order."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """What fills a task: offsets, or bytes of the log as brokers keep it, which may be compressed (None: any number)."""

    max_offsets: int
    max_bytes: int | None = None

    def offsets_of(self, record_bytes: int | None) -> int:
        """Return how many offsets of so many bytes each fill a task; None is unknown."""
        if self.max_bytes is None or not record_bytes:
            return self.max_offsets
        return max(1, min(self.max_offsets, self.max_bytes // record_bytes))


def bytes_per_offset(log_bytes: int, begin: int, end: int) -> int | None:
    """Return the average of a partition's log, at least 1; None of an empty one."""
    return max(1, math.ceil(log_bytes / (end - begin))) if end > begin and log_bytes > 0 else None


def fill_tasks(ranges: Iterable[OffsetRange], limits: TaskLimits, record_bytes: Mapping[int, int]) -> list[Task]:
    """Return tasks that read `ranges` of one topic in their order, all about equally full; `record_bytes` is by partition.

    The same input gives the same tasks, so a run that is repeated writes the same files.
    """
    wanted = [(each, limits.offsets_of(record_bytes.get(each.partition))) for each in ranges if each.size > 0]
    total = sum(each.size / full for each, full in wanted)
    level = total / max(1, math.ceil(total - _ROUNDING))
    tasks: list[Task] = []
    task: list[OffsetRange] = []
    filled = 0.0
    for whole, full in wanted:
        start = whole.start
        while start < whole.end:
            count = _fitting_offsets(filled, level, full)
            if count == 0 and task:
                tasks.append(tuple(task))
                task, filled = [], 0.0
                continue
            end = min(whole.end, start + max(1, count))
            task.append(OffsetRange(whole.topic, whole.partition, start, end))
            filled += (end - start) / full
            start = end
    return [*tasks, tuple(task)] if task else tasks


def _fitting_offsets(filled: float, level: float, full: int) -> int:
    """Return how many more offsets a task takes: up to the level, rounded up unless it is full before."""
    return max(0, min(math.ceil((level - filled) * full - _ROUNDING), math.floor((1 - filled) * full + _ROUNDING)))


def ranges_of(tasks: Iterable[Task]) -> dict[int, tuple[int, int]]:
    """Return the first offset and the one after the last that tasks of one topic read, by partition."""
    found: dict[int, tuple[int, int]] = {}
    for each in (one for task in tasks for one in task):
        start, end = found.get(each.partition, (each.start, each.end))
        found[each.partition] = min(start, each.start), max(end, each.end)
    return found


# as text, from the driver to the data source


def tasks_to_json(tasks: Sequence[Task]) -> str:
    """Return the text of tasks of one topic: a list of ranges for each, of which one is partition, start and end."""
    return json.dumps([[[each.partition, each.start, each.end] for each in task] for task in tasks])


def tasks_from_json(topic: str, text: str) -> tuple[Task, ...]:
    """Return the tasks that `tasks_to_json` was given. ValueError for anything that does not have that shape."""
    document = json.loads(text)
    if not isinstance(document, list) or not all(isinstance(each, list) and each for each in document):
        raise ValueError("not a list of lists")
    tasks = tuple(tuple(OffsetRange(topic, *map(_check_integer, one)) for one in task) for task in document)
    for each in (one for task in tasks for one in task):
        if not 0 <= each.start < each.end:
            raise ValueError(f"{each} is no range")
    return tasks


def _check_integer(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(f"{number!r} is no integer")
    return number
