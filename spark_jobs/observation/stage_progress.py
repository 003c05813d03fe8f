"""How far a query is that Spark runs as a whole: by the tasks of the stage that reads the log, which are about equally large."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

from kafkalite import NAME
from spark_jobs.observation.progress import Course, ProgressBoard
from spark_jobs.tasks import Task

_GROUP = "spark.jobGroup.id"


def watch_tasks(
    board: ProgressBoard, context: SparkContext, what: str, tasks: Sequence[Task]
) -> AbstractContextManager[None]:
    """Tell how far the block is, whose query reads `tasks` first."""
    return watch_stage(board, context, Course(what, sum(each.size for task in tasks for each in task)))


@contextmanager
def watch_stage(board: ProgressBoard, context: SparkContext, course: Course) -> Iterator[None]:
    """Tell how far the block is, whose query reads all of `course` in its first stage."""
    group, before = f"{NAME}-{secrets.token_hex(4)}", context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, group)
    try:
        with board.watch(course):
            with course.reading(_make_look(context.statusTracker(), group, course.total)):
                yield
            course.add_done(course.total)
    finally:
        context.setLocalProperty(_GROUP, before)  # type: ignore[arg-type]


def part_read(completed: int, tasks: int, total: int) -> int:
    """Return about how much of `total` the `completed` ones of equally large tasks have read."""
    return total * min(completed, tasks) // tasks if tasks else 0


def _make_look(tracker: Any, group: str, total: int) -> Callable[[], int]:
    """Return what says how much of `total` the first stage of a group of Spark's jobs has read; 0 when Spark does not tell."""

    def look() -> int:
        try:
            jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
            stages = [stage for job in jobs if job is not None for stage in job.stageIds]
            first = tracker.getStageInfo(min(stages)) if stages else None
        except (Py4JError, OSError):  # the session ends
            return 0
        return part_read(first.numCompletedTasks, first.numTasks, total) if first is not None else 0

    return look
