"""The metrics of a run, by Prometheus' conventions: base units, and gauges, because each run's figures replace those of the one before.

All have the labels `command` and `output`, so that the files of several runs can lie in one folder of node_exporter.
The job that wrote something is the label `step`: `job` is Prometheus' own, and a Pushgateway replaces it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import accumulate
from typing import Final

from spark_jobs.batch.ledger import Entry
from spark_jobs.observation.exposition import Family, Sample
from spark_jobs.observation.run_facts import LATENESS_BOUNDS_MS, Lateness
from spark_jobs.observation.run_summary import RunSummary

PREFIX: Final = "kafkalite_spark_run_"
LAST_SUCCESS: Final = f"{PREFIX}last_success_timestamp_seconds"
NO_REASON: Final = "unknown"
"""Of dead letters in entries without facts."""

_Key = tuple[str, ...]


def labels_of_run(run: RunSummary) -> dict[str, str]:
    """Return the labels that all samples have."""
    return {"command": run.command, "output": run.output}


def success_family(run: RunSummary, before_s: float | None = None) -> Family:
    """Return when the command last ended well: now, or `before_s` where this run has failed."""
    last_s = run.ended_ms / 1000 if run.succeeded else before_s
    samples = () if last_s is None else (Sample(labels_of_run(run), last_s),)
    return Family(LAST_SUCCESS, "gauge", "When the command last ended with exit code 0, in Unix time.", samples)


def run_families(run: RunSummary) -> Iterator[Family]:
    """Yield all metrics of a run but the time of the last success."""

    def gauge(name: str, help: str, value: float | None) -> Family:
        samples = () if value is None else (Sample(labels_of_run(run), value),)
        return Family(f"{PREFIX}{name}", "gauge", help, samples)

    yield gauge("end_timestamp_seconds", "When the last run of the command ended, in Unix time.", run.ended_ms / 1000)
    yield gauge("exit_code", "Exit code of the last run; 0 is success.", run.code)
    yield gauge(
        "duration_seconds", "Duration of the last run from start to end.", (run.ended_ms - run.started_ms) / 1000
    )
    ready_s = None if run.ready_ms is None else run.ready_ms / 1000
    yield gauge("start_duration_seconds", "Time until lock, brokers and Spark were ready for the first job.", ready_s)
    yield from _families_of_entries(run)
    yield from _families_of_audits(run)


def _families_of_entries(run: RunSummary) -> Iterator[Family]:
    def by_step(name: str, help: str, value: Callable[[Entry], float]) -> Family:
        return _sums(run, name, help, ("step", "topic"), ((_key(each), value(each)) for each in run.entries))

    yield by_step("dates", "Dates that the run has finished.", lambda entry: 1)
    yield by_step("records", "Records or rows of the dates themselves that were written.", _records)
    yield by_step(
        "late_records", "Records of earlier dates that were archived along.", lambda entry: entry.counts.get("late", 0)
    )
    yield by_step("written_bytes", "Bytes of the files that were published.", lambda entry: _sum_bytes(entry))
    yield by_step(
        "written_files", "Files that were published.", lambda entry: sum(len(unit.files) for unit in entry.units)
    )
    yield _sums(
        run,
        "dead_letters",
        "Records that became dead letters, by kind of reason.",
        ("step", "topic", "reason"),
        (((*_key(each), reason), count) for each in run.entries for reason, count in _reasons(each).items()),
    )
    yield _sums(
        run,
        "stage_duration_seconds",
        "Time that the stages of a job took.",
        ("step", "topic", "stage"),
        (
            ((*_key(each), stage), took_ms / 1000)
            for each in run.entries
            if each.facts is not None
            for stage, took_ms in each.facts.stages_ms.items()
        ),
    )
    yield _newest_dates(run)
    yield from _lateness_families(run)


def _families_of_audits(run: RunSummary) -> Iterator[Family]:
    def by_topic(name: str, help: str, values: Iterable[tuple[str, float]]) -> Family:
        return _sums(run, name, help, ("topic",), (((topic,), value) for topic, value in values))

    audits = run.audits
    yield by_topic("audit_dates", "Dates that were audited.", ((each.topic, 1) for each in audits))
    yield by_topic(
        "audit_differences",
        "Places in which log and archive differ.",
        ((each.topic, len(each.differences)) for each in audits),
    )
    yield by_topic(
        "audit_pending_records",
        "Late records in the log that no run has taken yet.",
        ((each.topic, each.pending) for each in audits),
    )
    yield by_topic(
        "audit_duration_seconds", "Time that the audit took.", ((each.topic, each.took_ms / 1000) for each in audits)
    )


def _sums(
    run: RunSummary, name: str, help: str, label_names: tuple[str, ...], values: Iterable[tuple[_Key, float]]
) -> Family:
    found: dict[_Key, float] = {}
    for key, value in values:
        found[key] = found.get(key, 0) + value
    own = labels_of_run(run)
    samples = (Sample({**own, **dict(zip(label_names, key, strict=True))}, value) for key, value in found.items())
    return Family(f"{PREFIX}{name}", "gauge", help, tuple(samples))


def _newest_dates(run: RunSummary) -> Family:
    newest: dict[_Key, float] = {}
    for entry in run.entries:
        day = entry.plan.date
        begin_s = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
        newest[_key(entry)] = max(begin_s, newest.get(_key(entry), begin_s))
    return _sums(
        run,
        "newest_date_timestamp_seconds",
        "The newest date that the run has finished, as the Unix time of its midnight in UTC.",
        ("step", "topic"),
        newest.items(),
    )


def _lateness_families(run: RunSummary) -> Iterator[Family]:
    found: dict[_Key, Lateness] = {}
    for entry in run.entries:
        lateness = entry.facts.lateness if entry.facts is not None else Lateness()
        if any(lateness.records):
            before = found.get(_key(entry), Lateness())
            found[_key(entry)] = Lateness(
                tuple(one + other for one, other in zip(before.records, lateness.records, strict=True)),
                before.sum_ms + lateness.sum_ms,
                max(before.max_ms, lateness.max_ms),
            )
    samples: list[Sample] = []
    for (step, topic), lateness in found.items():
        samples += _histogram({**labels_of_run(run), "step": step, "topic": topic}, lateness)
    help = "Time by which a record was behind the newest one before it in its partition."
    yield Family(f"{PREFIX}lateness_seconds", "histogram", help, tuple(samples))
    yield _sums(
        run,
        "max_lateness_seconds",
        "The largest lateness of a record.",
        ("step", "topic"),
        ((key, lateness.max_ms / 1000) for key, lateness in found.items()),
    )


def _histogram(labels: Mapping[str, str], lateness: Lateness) -> Iterator[Sample]:
    bounds = [str(bound_ms / 1000) for bound_ms in LATENESS_BOUNDS_MS] + ["+Inf"]
    for bound, count in zip(bounds, accumulate(lateness.records), strict=True):
        yield Sample({**labels, "le": bound}, count, "_bucket")
    yield Sample(labels, lateness.sum_ms / 1000, "_sum")
    yield Sample(labels, sum(lateness.records), "_count")


def _key(entry: Entry) -> _Key:
    return entry.job, entry.plan.topic


def _records(entry: Entry) -> float:
    return entry.counts.get("records", entry.counts.get("rows", 0))


def _sum_bytes(entry: Entry) -> float:
    return sum(unit.bytes for unit in entry.units)


def _reasons(entry: Entry) -> Mapping[str, int]:
    """Return the dead letters by reason; those that no reason is known of are NO_REASON."""
    known = Counter(entry.facts.dead_letters if entry.facts is not None else {})
    rest = entry.counts.get("dead_letters", 0) - known.total()
    return {**known, NO_REASON: rest} if rest > 0 else known
