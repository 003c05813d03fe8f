"""How far a query is, by what Spark says of its first stage."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafkalite.local.broker_process import wait_until
from spark_jobs.observation.progress import Course, ProgressBoard
from spark_jobs.observation.stage_progress import watch_stage, watch_tasks


class Context:
    """The part of a SparkContext that is asked, which knows one job with one stage."""

    def __init__(self) -> None:
        self.properties: dict[str, str | None] = {}
        self.completed = 0

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:
        self.properties[name] = value

    def statusTracker(self) -> Any:
        return SimpleNamespace(
            getJobIdsForGroup=lambda group: [7],
            getJobInfo=lambda job: SimpleNamespace(stageIds=[3, 4]),
            getStageInfo=lambda stage: (
                SimpleNamespace(numCompletedTasks=self.completed, numTasks=2) if stage == 3 else None
            ),
        )


def test_the_end_tells_of_all_offsets() -> None:
    """Also where the query goes on after its first stage, or Spark has forgotten that by then."""
    told: list[str] = []
    times = iter((0.0, 100.0))
    board = ProgressBoard(told.append, interval_s=3600, clock_s=lambda: next(times))
    tasks: Any = [[SimpleNamespace(size=300)], [SimpleNamespace(size=200), SimpleNamespace(size=500)]]
    with watch_tasks(board, Context(), "audit of flights", tasks):  # type: ignore[arg-type]
        pass
    assert told == ["audit of flights: 1,000 offsets read in 1 min 40 s, 10/s"]


def test_a_stage_is_told_of_in_its_unit() -> None:
    told: list[str] = []
    context = Context()
    context.completed = 1
    course = Course("audit of the archive of flights", 1000, unit="records")
    with watch_stage(ProgressBoard(told.append, interval_s=0.001), context, course):  # type: ignore[arg-type]
        line = "audit of the archive of flights: 500 of 1,000 records (50 %)"
        wait_until(lambda: any(each.startswith(line) for each in told), line, 10)
