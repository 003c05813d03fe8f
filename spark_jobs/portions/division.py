"""How a run's tasks are divided into portions, and which attempts do the same. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.batch.formats import DecodedColumns
from spark_jobs.batch.ledger import PLANNED, Entry, plan_to_json
from spark_jobs.batch.plan import RunPlan
from spark_jobs.batch.records import Reading
from spark_jobs.tasks import Task, tasks_to_json

_WAVES: Final = 16
"""Tasks of a portion for each core: the last ones leave cores idle, and what a crash may cost is a minute or two."""
_LEAST_TASKS: Final = 32


@dataclass(frozen=True, slots=True)
class Portion:
    """Consecutive tasks of a run; `first_task` is the number of the first among all of them."""

    number: int
    first_task: int
    tasks: tuple[Task, ...]

    @property
    def offsets(self) -> int:
        return sum(each.size for task in self.tasks for each in task)


def divide_tasks(tasks: Sequence[Task], size: int) -> list[Portion]:
    """Return portions of `size` tasks, the last one of what is left."""
    return [
        Portion(number, first, tuple(tasks[first : first + size]))
        for number, first in enumerate(range(0, len(tasks), size))
    ]


def portion_size(reading: Reading, cores: int) -> int:
    """Return how many tasks a portion has where Spark runs `cores` at once."""
    return reading.tasks_per_portion or max(_LEAST_TASKS, _WAVES * cores)


def work_signature(plans: Sequence[RunPlan], tasks: Sequence[Task], reading: Reading, columns: DecodedColumns) -> str:
    """Return a text that is equal for attempts whose portions have the same files."""
    decoded = [None if each is None else each.identity for each in (columns.key, columns.value)]
    what = [
        [plan_to_json(plan) for plan in plans],
        tasks_to_json(tasks),
        [reading.zone, reading.max_file_bytes, reading.fail_on_data_loss],
        decoded,
    ]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def shared_attempt(pending: Sequence[Entry | None]) -> str | None:
    """Return the attempt that has planned all of these entries together; None unless there is one."""
    attempts = {None if each is None or each.state != PLANNED else each.attempt for each in pending}
    return attempts.pop() if len(attempts) == 1 else None
