"""Lineage events, held to OpenLineage's own schemas: what they say of runs that end well and badly, and where they go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

from spark_jobs.commands import main
from spark_jobs.observation.lineage import (
    Lineage,
    LineagePlace,
    Parent,
    file_dataset,
    kafka_namespace,
    parse_parent,
    run_id,
)
from spark_jobs.observation.lineage_delivery import open_lineage
from tests.unit.spark_jobs.observation.example_runs import DAY_MS, archive_entry, report, unit
from tests.unit.spark_jobs.observation.test_run_metrics import gateway

SCHEMAS: Final = {
    document["$id"]: document
    for path in sorted((Path(__file__).parent / "openlineage").glob("*.json"))
    for document in [json.loads(path.read_text())]
}
REGISTRY: Final = Registry().with_resources((name, Resource.from_contents(each)) for name, each in SCHEMAS.items())
PLACE: Final = LineagePlace("broker-1:9092,broker-2:9092", "/data/nightly", "America/New_York", engine_version="4.1.0")
PARENT: Final = Parent("airflow", "dag.task", "f99310b4-3c3c-1a1a-2b2b-c1b95c24ff11")
COLUMNS: Final = {"key": "binary", "decoded": "struct<carrier:string>"}


def validate(event: Mapping[str, Any]) -> None:
    """By the schema that the event names, and each facet by the one that it names."""
    _validate(event["schemaURL"], event)
    for owner, kinds in (
        (event["run"], ["facets"]),
        (event["job"], ["facets"]),
        *((each, ["facets", "inputFacets"]) for each in event["inputs"]),
        *((each, ["facets", "outputFacets"]) for each in event["outputs"]),
    ):
        for kind in kinds:
            for name, facet in owner.get(kind, {}).items():
                _validate(facet["_schemaURL"], facet)
                assert name in SCHEMAS[facet["_schemaURL"].partition("#")[0]]["properties"]


def _validate(url: str, document: Any) -> None:
    validator = Draft202012Validator({"$ref": url}, registry=REGISTRY, format_checker=FormatChecker())
    assert [error.message for error in validator.iter_errors(document)] == []


def lineage(place: LineagePlace = PLACE) -> tuple[Lineage, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    return Lineage(place, lambda event: events.append(json.loads(json.dumps(event))), lambda: DAY_MS), events


def test_a_run_that_is_done() -> None:
    found, events = lineage(replace(PLACE, parent=PARENT))
    entry = archive_entry()
    found.notify_begin(entry, COLUMNS)
    found.notify_finish(entry)
    found.fail_open_runs("nothing is open")
    start, complete = events
    for event in events:
        validate(event)
        assert event["job"]["namespace"] == "kafkalite" and event["job"]["name"] == "archive.flights"
        assert event["run"]["runId"] == run_id(entry)
        facets = event["run"]["facets"]
        assert facets["nominalTime"]["nominalStartTime"] == "2013-06-15T04:00:00.000Z", "the day of the zone"
        assert facets["nominalTime"]["nominalEndTime"] == "2013-06-16T04:00:00.000Z"
        assert facets["parent"]["run"]["runId"] == PARENT.run_id and facets["processing_engine"]["version"] == "4.1.0"
        assert event["inputs"][0]["namespace"] == "kafka://broker-1:9092" and event["inputs"][0]["name"] == "flights"
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["eventTime"] == "2013-06-16T00:59:56.000Z" and complete["eventTime"] == "2013-06-16T01:00:00.000Z"
    assert complete["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 140
    table, dead = complete["outputs"]
    assert (table["namespace"], table["name"]) == ("file", "/data/nightly/archive/topic=flights")
    assert table["facets"]["schema"]["fields"] == [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    statistics = table["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (130, 13_000, 2)
    assert dead["name"] == "/data/nightly/dead_letters/topic=flights" and dead["facets"] == {}


def test_a_run_that_fails() -> None:
    found, events = lineage()
    found.notify_begin(archive_entry(), COLUMNS)
    found.fail_open_runs("the cluster has lost records")
    validate(events[-1])
    assert events[-1]["eventType"] == "FAIL" and events[-1]["run"]["runId"] == events[0]["run"]["runId"]
    assert events[-1]["run"]["facets"]["errorMessage"]["message"] == "the cluster has lost records"


def test_a_run_that_is_finished_after_a_crash_is_the_one_that_was_begun() -> None:
    (one, before), (other, after) = lineage(), lineage()
    entry = archive_entry()
    one.notify_begin(entry, COLUMNS)
    other.notify_finish(replace(entry, done_ms=entry.done_ms + 1))
    validate(after[0])
    assert after[0]["run"]["runId"] == before[0]["run"]["runId"]
    assert run_id(replace(entry, attempt="another")) != run_id(entry) != run_id(replace(entry, job="compact"))


def test_results_that_go_to_a_topic() -> None:
    found, events = lineage()
    sent = unit(7, kind="_sent/delays")
    entry = replace(archive_entry(), job="reprocess-delays", units=(sent,), counts={"rows": 7}, sink_topic="delays")
    found.notify_finish(entry)
    validate(events[0])
    (output,) = events[0]["outputs"]
    assert (output["namespace"], output["name"]) == ("kafka://broker-1:9092", "delays")
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 7


@pytest.mark.parametrize(("differences", "state"), [(0, "COMPLETE"), (2, "FAIL")])
def test_audits_are_assertions(differences: int, state: str) -> None:
    found, events = lineage()
    found.notify_audit(report(differences=differences))
    start, end = events
    for event in events:
        validate(event)
        assert event["job"]["name"] == "audit.flights" and event["run"]["runId"] == start["run"]["runId"]
    assert (start["eventType"], end["eventType"]) == ("START", state)
    (assertion,) = end["inputs"][1]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert assertion["success"] == (not differences)
    assert ("errorMessage" in end["run"]["facets"]) == bool(differences)


def test_events_that_the_schemas_refuse_would_be_found() -> None:
    found, events = lineage()
    found.notify_begin(archive_entry(), COLUMNS)
    for spoil in (
        lambda event: event.update(eventType="BEGIN"),
        lambda event: event["run"].update(runId="7"),
        lambda event: event["run"]["facets"]["nominalTime"].pop("nominalStartTime"),
        lambda event: event["job"]["facets"]["jobType"].pop("integration"),
    ):
        event = json.loads(json.dumps(events[0]))
        spoil(event)
        with pytest.raises(AssertionError):
            validate(event)


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("/data/a b", "file", "/data/a b"),
        ("file:/data", "file", "/data"),
        ("file:///data", "file", "/data"),
        ("hdfs://name:8020/nightly/archive", "hdfs://name:8020", "/nightly/archive"),
        ("s3a://bucket/nightly/archive", "s3://bucket", "nightly/archive"),
        ("gs://bucket/nightly", "gs://bucket", "nightly"),
        ("abfss://c@s.dfs.core.windows.net/n", "abfss://c@s.dfs.core.windows.net", "/n"),
        ("hdfs://name/100% #1?", "hdfs://name", "/100% #1?"),
    ],
)
def test_folders_are_named_as_the_conventions_say(uri: str, namespace: str, name: str) -> None:
    assert file_dataset(uri) == (namespace, name)


def test_other_names() -> None:
    assert kafka_namespace(" [::1]:9092 , other:1") == "kafka://[::1]:9092"
    assert parse_parent(f"airflow/dag.task/{PARENT.run_id}") == PARENT
    for text in ("", "a/b", "a/b/7", f"/b/{PARENT.run_id}", PARENT.run_id):
        assert parse_parent(text) is None


def emit_one(target: str | None, environment: dict[str, str]) -> list[str]:
    told: list[str] = []
    found = open_lineage(target, PLACE, lambda: DAY_MS, told.append, environment)
    assert found is not None
    found.notify_begin(archive_entry(), {})
    found.notify_finish(archive_entry())
    return told


def test_a_file_gets_a_line_for_each_event(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for _ in range(2):
        assert emit_one(str(path), {"OPENLINEAGE_URL": "http://127.0.0.1:1", "OPENLINEAGE_NAMESPACE": "night"}) == []
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [each["eventType"] for each in events] == ["START", "COMPLETE"] * 2
    assert {each["job"]["namespace"] for each in events} == {"night"}
    assert len(emit_one(str(tmp_path), {})) == 1, "told once"


def test_an_endpoint_gets_events_as_from_openlineages_clients() -> None:
    with gateway(201) as (address, requests):
        assert emit_one(None, {"OPENLINEAGE_URL": f"http://{address}/", "OPENLINEAGE_API_KEY": "k"}) == []
        assert emit_one(f"http://{address}", {"OPENLINEAGE_ENDPOINT": "/own"}) == []
        assert emit_one(f"http://{address}/all/of/it", {}) == []
    assert [path for _, path, *_ in requests] == ["/api/v1/lineage"] * 2 + ["/own"] * 2 + ["/all/of/it"] * 2
    method, _, body, headers = requests[0]
    assert (method, headers["Authorization"], headers["Content-Type"]) == ("POST", "Bearer k", "application/json")
    validate(json.loads(body))
    assert "Authorization" not in requests[2][3]


def test_an_endpoint_that_fails_is_asked_once() -> None:
    with gateway(500) as (address, requests):
        (told,) = emit_one(f"http://me:secret@{address}", {})
    assert len(requests) == 1
    assert told.startswith(f"warning: lineage is not sent to http://{address}/api/v1/lineage any more: HTTP 500")


def test_no_lineage_where_nobody_asks() -> None:
    for target, environment in ((None, {}), ("http://h", {"OPENLINEAGE_DISABLED": "true"})):
        assert open_lineage(target, PLACE, lambda: DAY_MS, lambda _: None, environment) is None


def test_what_is_wrong_with_lineage_changes_no_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    place = ["--topic", "t", "--output", str(tmp_path), "--no-lock", "-b", "127.0.0.1:1", "--date", "2013-06-15"]
    assert CliRunner().invoke(main, ["nightly", *place]).exit_code == 5
