"""Job `reprocess`: a user's transform on the records of a date; the result goes to Parquet, to another topic, or to both.

The transform is a function that takes a DataFrame of records (key, value, partition, offset, timestamp, timestampType, headers, date, and
`decoded_key` and `decoded` where there are formats) and returns another DataFrame. It is given as `module:function`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from types import ModuleType

from pyspark import cloudpickle
from pyspark.sql import DataFrame

from spark_jobs.batch import layout
from spark_jobs.batch.dated_result import Places, Sink, complete, record_plan
from spark_jobs.batch.failures import BadRequestError, JobError
from spark_jobs.batch.formats import Formats
from spark_jobs.batch.ledger import Entry, Ledger
from spark_jobs.batch.night import Night, check_unread, first_offsets, recorded_plan, with_sizes
from spark_jobs.batch.plan import LogBounds, RunPlan, Whereabouts, plan_runs, read_ranges, take_undated
from spark_jobs.batch.records import DecodedRecords, records_of, tasks_of
from spark_jobs.batch.tally import check_read
from spark_jobs.observation.journal import PLAN

Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Reprocessing:
    """`name` is that of the result, `function` is `module:function`. With `to_topic` the rows are sent there too."""

    name: str
    function: str
    to_parquet: bool = True
    to_topic: str | None = None

    @property
    def job(self) -> str:
        return f"reprocess-{self.name}"

    @property
    def places(self) -> Places:
        """Results that only go to a topic are kept out of readers' sight: they say what was sent."""
        kind = layout.reprocessed_kind(self.name) if self.to_parquet else layout.sent_kind(self.name)
        return Places(kind, layout.dead_letters_of(self.name))


def load_function(name: str) -> Transform:
    """Load `module:function`, from the working directory or wherever Python finds it. BadRequestError."""
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise BadRequestError(f"{name!r} is not like module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ImportError as problem:
        raise BadRequestError(f"cannot import {module_name} for the transform {name}: {problem}") from problem
    function = getattr(module, function_name, None)
    if not callable(function):
        raise BadRequestError(f"module {module_name} has no function {function_name}")
    _send_along(module)
    found: Transform = function
    return found


def _send_along(module: ModuleType) -> None:
    """Send the functions of a user's module to executors with the job: they need not be able to import it."""
    if "site-packages" not in (getattr(module, "__file__", None) or ""):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def plan(night: Night, ledger: Ledger, bounds: LogBounds, day: date, where: Whereabouts | None = None) -> RunPlan:
    """Return the plan: as recorded if the date was planned before, else all of the date's records that the log has now. DataLossError.

    `where` tells where records are, if that is known.
    """
    recorded = recorded_plan(night, ledger, bounds, day)
    if recorded is not None and not night.refresh:
        return recorded
    (planned,) = with_sizes(night, bounds, plan_runs(bounds, {day: first_offsets(night, bounds, day)}))
    finished = ledger.done_plans(bounds.topic)
    done = [each for each in finished if each.date != day]
    known = {each.date: each.coverage for each in finished}
    checked = take_undated(check_unread(night, bounds, known, planned), done, bounds.begin)
    return checked if where is None else where.narrow_plan(checked)


def transform(records: DataFrame, function: Transform, name: str) -> DataFrame:
    """Apply the user's function to the records. JobError when it fails or returns something else."""
    try:
        result = function(records)
    except Exception as problem:
        raise JobError(f"the transform {name} failed: {type(problem).__name__}: {problem}") from problem
    if not isinstance(result, DataFrame):
        raise JobError(f"the transform {name} returned {type(result).__name__}, not a DataFrame")
    return result


class _Reprocessed:
    """The `dated_result.Product` of a transform. A transform need not look at all records, so tasks may end without having read them.

    Then what they had to read is not known from the result, but from the dead letters, for which all is read.
    """

    def __init__(self, night: Night, planned: RunPlan, formats: Formats, wanted: Reprocessing, function: Transform):
        self._topic, self._date, self._ranges = planned.topic, planned.date, read_ranges([planned])
        self.tasks = tasks_of(night.reading, [planned])
        found = records_of(night.spark, night.reading, [planned], self.tasks)
        self._records = DecodedRecords(found, formats.columns(planned.topic), night.reading.max_file_bytes)
        self._result = transform(self._records.good.drop("run", "piece"), function, wanted.function)

    @property
    def result(self) -> DataFrame:
        return self._result

    @property
    def dead(self) -> DataFrame:
        return self._records.dead

    def check_result(self) -> bool:
        if self._records.reading_tasks < len(self.tasks):
            return True
        check_read(self._topic, self._ranges, self._records.counts)
        return bool(self._records.rows_by_partition(self._records.counts, dead=True))

    def result_rows(self) -> None:
        return None

    def dead_rows(self) -> Mapping[int, int]:
        counts = self._records.counts_of_dead
        check_read(self._topic, self._ranges, counts)
        return self._records.rows_by_partition(counts, dead=True)

    def dead_reasons(self) -> Mapping[str, int]:
        return self._records.counts_of_dead.facts.reasons_of(self._date)


def main(
    night: Night, topic: str, day: date, formats: Formats, wanted: Reprocessing, where: Whereabouts | None = None
) -> Entry:
    """Reprocess one date of a topic. JobError, ClientError."""
    function = load_function(wanted.function)
    ledger = night.ledger(wanted.job)
    with night.journal.measure(PLAN):
        planned = plan(night, ledger, night.log.bounds(topic), day, where)
    sink = None
    if wanted.to_topic is not None:
        before = ledger.read_done(topic, day)
        again = before is not None and before.sink_topic == wanted.to_topic
        sink = Sink(
            wanted.to_topic,
            before.sink_start if before is not None and again else night.log.bounds(wanted.to_topic).end,
        )
    entry = record_plan(ledger, planned)
    product = _Reprocessed(night, planned, formats, wanted, function)
    return complete(night, ledger, entry, wanted.places, product, sink)
