"""Lineage of a run as OpenLineage events (RunEvent of spec 2-0-2): START, COMPLETE and FAIL for each job, topic and date.

The id of a run is made of the attempt in the ledger, so a run that is finished after a crash is the one that was begun. Datasets are named
as OpenLineage's naming conventions say: a topic by the first bootstrap server, a table by the folder of its topic. An audit is a run that
asserts something of the archive and fails where log and archive differ.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from kafkalite import NAME, __version__
from spark_jobs.batch import layout
from spark_jobs.batch.comparison import Report
from spark_jobs.batch.ledger import Entry, Unit
from spark_jobs.batch.window import day_start_ms, time_zone

SPEC: Final = "https://openlineage.io/spec"
RUN_EVENT: Final = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
PRODUCER: Final = f"urn:{NAME}:spark-jobs:{__version__}"
DEFAULT_NAMESPACE: Final = NAME

START, COMPLETE, FAIL = "START", "COMPLETE", "FAIL"

_FACETS: Final = {
    "schema": "1-2-0/SchemaDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
    "inputStatistics": "1-0-0/InputStatisticsInputDatasetFacet",
    "dataQualityAssertions": "1-1-0/DataQualityAssertionsDatasetFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "nominalTime": "1-0-1/NominalTimeRunFacet",
    "parent": "1-2-0/ParentRunFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
}
"""Version and name of the schema of each facet."""
_RUNS: Final = uuid.uuid5(uuid.NAMESPACE_URL, "urn:kafkalite:spark-jobs:runs")
_S3: Final = frozenset({"s3", "s3a", "s3n"})

Emit = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that started this one, as of an Airflow task."""

    namespace: str
    job: str
    run_id: str


@dataclass(frozen=True, slots=True)
class LineagePlace:
    """Where the run takes from and writes to. `servers` are the bootstrap servers, `namespace` is that of the jobs."""

    servers: str
    output: str
    zone: str
    namespace: str = DEFAULT_NAMESPACE
    parent: Parent | None = None
    engine_version: str = ""


class Lineage:
    """The listener that emits events."""

    def __init__(self, place: LineagePlace, emit: Emit, now_ms: Callable[[], int]) -> None:
        self._place, self._emit, self._now_ms = place, emit, now_ms
        self._open: dict[str, Entry] = {}
        self._columns: dict[str, Mapping[str, str]] = {}

    def notify_begin(self, entry: Entry, columns: Mapping[str, str]) -> None:
        run = run_id(entry)
        self._open[run], self._columns[run] = entry, columns
        self._emit(self._event(START, entry, entry.planned_ms or self._now_ms(), [self._topic(entry.plan.topic)], []))

    def notify_finish(self, entry: Entry) -> None:
        """Emit COMPLETE. A run that an earlier process had begun to publish has no columns."""
        run = run_id(entry)
        self._open.pop(run, None)
        counts = entry.counts
        rows = sum(counts.get(name, 0) for name in ("records", "rows", "late", "dead_letters"))
        read = _facet("inputStatistics", rowCount=rows) if "records" in counts else {}
        source = {**self._topic(entry.plan.topic), **({"inputFacets": read} if read else {})}
        outputs = list(self._outputs(entry, self._columns.pop(run, {})))
        self._emit(self._event(COMPLETE, entry, entry.done_ms, [source], outputs))

    def notify_audit(self, report: Report) -> None:
        """Emit START, and COMPLETE or FAIL with the assertion that the archive has what the log has."""
        found = report.differences
        assertion = {"assertion": "log_and_archive_agree", "success": not found, "severity": "error"}
        archive = {
            **self._table(f"{layout.ARCHIVE}/topic={report.topic}"),
            "inputFacets": _facet("dataQualityAssertions", assertions=[assertion]),
        }
        inputs = [self._topic(report.topic), archive]
        name, run = f"audit.{report.topic}", str(uuid.uuid4())
        for state, at_ms in (
            (START, report.audited_ms - report.took_ms),
            (FAIL if found else COMPLETE, report.audited_ms),
        ):
            facets = self._run_facets(report.date)
            if state == FAIL:
                facets |= _error(
                    f"log and archive differ in {len(found)} places, first {found[0].place}: {found[0].problem}"
                )
            self._emit(self._document(state, at_ms, run, facets, name, inputs if state != START else inputs[:1], []))

    def fail_open_runs(self, problem: str) -> None:
        """Emit FAIL for what has begun and did not finish."""
        for entry in self._open.values():
            event = self._event(FAIL, entry, self._now_ms(), [self._topic(entry.plan.topic)], [])
            event["run"]["facets"] |= _error(problem)
            self._emit(event)
        self._open.clear()

    def _event(
        self, state: str, entry: Entry, at_ms: int, inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        name = f"{entry.job}.{entry.plan.topic}"
        return self._document(state, at_ms, run_id(entry), self._run_facets(entry.plan.date), name, inputs, outputs)

    def _document(
        self,
        state: str,
        at_ms: int,
        run: str,
        facets: dict[str, Any],
        name: str,
        inputs: list[dict[str, Any]],
        outputs: list[dict[str, Any]],
    ) -> dict[str, Any]:
        kind = _facet("jobType", processingType="BATCH", integration=NAME.upper(), jobType="JOB")
        return {
            "eventType": state,
            "eventTime": _time(at_ms),
            "producer": PRODUCER,
            "schemaURL": RUN_EVENT,
            "run": {"runId": run, "facets": facets},
            "job": {"namespace": self._place.namespace, "name": name, "facets": kind},
            "inputs": inputs,
            "outputs": outputs,
        }

    def _run_facets(self, day: Any) -> dict[str, Any]:
        zone = time_zone(self._place.zone)
        start, end = (_time(day_start_ms(each, zone)) for each in (day, day + timedelta(days=1)))
        found = _facet("nominalTime", nominalStartTime=start, nominalEndTime=end)
        if self._place.engine_version:
            found |= _facet("processing_engine", version=self._place.engine_version, name="spark")
        if (parent := self._place.parent) is not None:
            job = {"namespace": parent.namespace, "name": parent.job}
            found |= _facet("parent", run={"runId": parent.run_id}, job=job)
        return found

    def _topic(self, topic: str) -> dict[str, Any]:
        return {"namespace": kafka_namespace(self._place.servers), "name": topic}

    def _table(self, path: str) -> dict[str, Any]:
        namespace, name = file_dataset(f"{self._place.output}/{path}")
        return {"namespace": namespace, "name": name}

    def _outputs(self, entry: Entry, columns: Mapping[str, str]) -> Iterable[dict[str, Any]]:
        tables: dict[str, list[Unit]] = {}
        for unit in entry.units:
            if not unit.path.startswith("_"):
                tables.setdefault(unit.path.partition("/date=")[0], []).append(unit)
        for path, units in tables.items():
            statistics = _facet(
                "outputStatistics",
                rowCount=sum(unit.rows for unit in units),
                size=sum(unit.bytes for unit in units),
                fileCount=sum(len(unit.files) for unit in units),
            )
            fields = [{"name": name, "type": kind} for name, kind in columns.items()]
            shown = fields and not path.startswith(layout.DEAD_LETTERS)
            facets = _facet("schema", fields=fields) if shown else {}
            yield {**self._table(path), "facets": facets, "outputFacets": statistics}
        if entry.sink_topic:
            sent = _facet("outputStatistics", rowCount=entry.counts.get("rows", 0))
            yield {**self._topic(entry.sink_topic), "outputFacets": sent}


def run_id(entry: Entry) -> str:
    """Return the id of an attempt's run, the same whoever finishes it."""
    return str(uuid.uuid5(_RUNS, f"{entry.attempt}/{entry.job}/{entry.plan.topic}/{entry.plan.date}"))


def kafka_namespace(servers: str) -> str:
    """Return the namespace of topics: the first bootstrap server."""
    return f"kafka://{servers.split(',')[0].strip()}"


def file_dataset(uri: str) -> tuple[str, str]:
    """Return namespace and name of a folder, given as a path or a URI."""
    parts = urlsplit(uri) if "://" in uri else None
    if parts is None or not parts.scheme:
        return "file", uri.removeprefix("file:")
    if parts.scheme == "file":
        return (f"file://{parts.netloc}" if parts.netloc else "file"), parts.path
    authority = uri.partition("://")[2].partition("/")[0]
    path = uri.partition("://")[2].removeprefix(authority)
    if parts.scheme in _S3:
        return f"s3://{authority}", path.lstrip("/")
    return f"{parts.scheme}://{authority}", path.lstrip("/") if parts.scheme in ("gs", "wasbs") else path


def parse_parent(text: str) -> Parent | None:
    """Return the parent that OPENLINEAGE_PARENT_ID names as namespace/job/run id; None for something else."""
    head, _, run = text.rpartition("/")
    namespace, slash, job = head.partition("/")
    try:
        return Parent(namespace, job, str(uuid.UUID(run))) if slash and namespace and job else None
    except ValueError:
        return None


def _facet(facet: str, /, **content: Any) -> dict[str, Any]:
    version, _, schema = _FACETS[facet].partition("/")
    url = f"{SPEC}/facets/{version}/{schema}.json#/$defs/{schema}"
    return {facet: {"_producer": PRODUCER, "_schemaURL": url, **content}}


def _error(message: str) -> dict[str, Any]:
    return _facet("errorMessage", message=message, programmingLanguage="PYTHON")


def _time(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
