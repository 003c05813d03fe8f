"""How far a query is that Spark runs as a whole: by the tasks of the stage that reads the log, which are about equally large."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

from spark_jobs.observation.progress import Course, ProgressBoard
from spark_jobs.tasks import Task

_GROUP = "spark.jobGroup.id"


@contextmanager
def watch_tasks(board: ProgressBoard, context: SparkContext, what: str, tasks: Sequence[Task]) -> Iterator[None]:
    """Tell how far the block is, whose query reads `tasks` first."""
    course = Course(what, sum(each.size for task in tasks for each in task))
    group, before = f"kafkalite-{secrets.token_hex(4)}", context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, group)
    try:
        with board.watch(course):
            with course.reading(_make_look(context.statusTracker(), group, course.total, len(tasks))):
                yield
            course.add_done(course.total)
    finally:
        context.setLocalProperty(_GROUP, before)  # type: ignore[arg-type]


def read_offsets(completed: int, tasks: int, total: int) -> int:
    """Return about how many offsets `completed` of equally large tasks have read."""
    return total * min(completed, tasks) // tasks if tasks else 0


def _make_look(tracker: Any, group: str, total: int, tasks: int) -> Callable[[], int]:
    """Return what says how many offsets the first stage of a group of Spark's jobs has read; 0 when Spark does not tell."""

    def look() -> int:
        try:
            jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
            stages = [stage for job in jobs if job is not None for stage in job.stageIds]
            first = tracker.getStageInfo(min(stages)) if stages else None
        except (Py4JError, OSError):  # the session ends
            return 0
        return read_offsets(first.numCompletedTasks, tasks, total) if first is not None else 0

    return look
