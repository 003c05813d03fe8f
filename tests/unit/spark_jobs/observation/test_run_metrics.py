"""A run's metrics as Prometheus' own library reads them, in a file and at a Pushgateway that does what it likes."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from deploy.docs.staging import ROOT
from spark_jobs.commands import main
from spark_jobs.observation.exposition import write_families
from spark_jobs.observation.metrics_delivery import push_metrics, write_metrics_file
from spark_jobs.observation.run_metrics import LAST_SUCCESS, PREFIX, labels_of_run, run_families, success_family
from tests.unit.spark_jobs.observation.example_runs import DAY_MS, summary, unreachable_night


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Samples by name and labels, without those that all have."""
    own = labels_of_run(summary())
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("gauge", "histogram"), family
        for sample in family.samples:
            assert {name: sample.labels.pop(name) for name in own} == own
            found[sample.name, tuple(sample.labels.items())] = sample.value
    return found


def test_alerts_are_on_metrics_that_runs_have() -> None:
    alerts = set(re.findall(rf"{PREFIX}\w+", (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()))
    families = {family.name for family in (success_family(summary()), *run_families(summary()))}
    assert alerts and alerts <= families


def test_what_a_data_team_alerts_on() -> None:
    found = read(write_families([success_family(summary()), *run_families(summary())]))
    flights = (("step", "archive"), ("topic", "flights"))

    def value(name: str, *labels: tuple[str, str]) -> float:
        return found[f"{PREFIX}{name}", labels]

    assert value("last_success_timestamp_seconds") == value("end_timestamp_seconds") == (DAY_MS + 90_012_500) / 1000
    assert (value("exit_code"), value("duration_seconds"), value("start_duration_seconds")) == (0, 12.5, 4.2)
    assert (value("records", *flights), value("late_records", *flights)) == (125, 5)
    assert (value("written_bytes", *flights), value("written_files", *flights)) == (14_000, 3)
    assert value("dead_letters", *flights, ("reason", "value: not JSON")) == 8
    assert value("dead_letters", *flights, ("reason", 'key: field "x" is missing')) == 2
    assert value("dead_letters", ("step", "archive"), ("topic", "orders"), ("reason", "unknown")) == 10
    assert value("stage_duration_seconds", *flights, ("stage", "read")) == 2.5
    assert value("newest_date_timestamp_seconds", *flights) == DAY_MS / 1000
    assert value("lateness_seconds_bucket", *flights, ("le", "1.0")) == 125
    assert (
        value("lateness_seconds_bucket", *flights, ("le", "+Inf")) == value("lateness_seconds_count", *flights) == 128
    )
    assert (value("lateness_seconds_sum", *flights), value("max_lateness_seconds", *flights)) == (86_500, 86_400)
    assert [value("audit_differences", ("topic", topic)) for topic in ("flights", "orders")] == [0, 2]
    assert value("audit_pending_records", ("topic", "orders")) == 3


def test_a_file_keeps_the_last_success_over_failures(tmp_path: Path) -> None:
    path, told = tmp_path / "night.prom", []
    write_metrics_file(path, summary(8, "gone"), told.append)
    assert (LAST_SUCCESS, ()) not in read(path.read_text())
    write_metrics_file(path, summary(), told.append)
    good = read(path.read_text())
    write_metrics_file(path, summary(8, "gone"), told.append)
    failed = read(path.read_text())
    assert failed[LAST_SUCCESS, ()] == good[LAST_SUCCESS, ()] > 0
    assert failed[f"{PREFIX}exit_code", ()] == 8
    assert ([each.name for each in tmp_path.iterdir()], told) == (["night.prom"], [])


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    write_metrics_file(tmp_path / "no" / "night.prom", summary(), told.append)
    (tmp_path / "folder.prom").mkdir()
    write_metrics_file(tmp_path / "folder.prom", summary(), told.append)
    assert len(told) == 2 and "not written to" in told[0] and "No such file or directory" in told[0]
    assert [each.name for each in tmp_path.iterdir()] == ["folder.prom"], "nothing is left behind"


class _Gateway(BaseHTTPRequestHandler):
    requests: list[tuple[str, str, str, dict[str, str]]]
    status: int

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.requests.append((self.command, self.path, body, dict(self.headers)))
        self.send_response(self.status)
        if self.status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"nope\n")

    do_POST = do_PUT

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def gateway(status: int = 200) -> Iterator[tuple[str, list[tuple[str, str, str, dict[str, str]]]]]:
    """A server's address, and what it was asked."""
    requests: list[tuple[str, str, str, dict[str, str]]] = []
    handler = type("Handler", (_Gateway,), {"requests": requests, "status": status})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def test_a_gateway_gets_the_run_and_apart_the_last_success() -> None:
    told: list[str] = []
    group = (
        f"/metrics/job/kafkalite_spark/command@base64/{encoded('nightly')}/output@base64/{encoded(summary().output)}"
    )
    with gateway() as (address, requests):
        push_metrics(f"http://me:a%40b@{address}/", summary(), told.append)
        push_metrics(f"http://{address}/prefix/metrics/job/own", summary(8, "gone"), told.append)
    assert told == []
    assert [(method, path) for method, path, *_ in requests[:2]] == [("PUT", group), ("PUT", f"{group}/result/success")]
    assert read(requests[0][2]) == read(write_families(run_families(summary())))
    assert list(read(requests[1][2])) == [(LAST_SUCCESS, ())]
    assert requests[0][3]["Authorization"] == "Basic " + base64.b64encode(b"me:a@b").decode()
    (failed,) = requests[2:]
    assert failed[1] == group.replace("/metrics/job/kafkalite_spark", "/prefix/metrics/job/own")
    assert LAST_SUCCESS not in failed[2], "the group of the last success is left alone"


@pytest.mark.parametrize(("status", "problem"), [(400, "HTTP 400 Bad Request: nope"), (302, "HTTP 302 Found")])
def test_a_gateway_that_refuses_is_told(status: int, problem: str) -> None:
    told: list[str] = []
    with gateway(status) as (address, requests):
        push_metrics(f"http://me:secret@{address}", summary(), told.append)
    assert len(requests) == 1
    (text,) = told
    assert text.startswith(f"warning: the metrics were not pushed to http://{address}: {problem}")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "file:///etc/passwd", "gateway:9091", "http://[", "http://h:x/"])
def test_a_gateway_that_is_not_there_is_told(url: str) -> None:
    told: list[str] = []
    push_metrics(url, summary(), told.append)
    assert len(told) == 1 and told[0].startswith(f"warning: the metrics were not pushed to {url}: ")


def test_a_run_that_cannot_begin_has_metrics_too(tmp_path: Path) -> None:
    """A night that finds no broker is what the alert is for; what is wrong with the metrics changes no exit code."""
    path = tmp_path / "night.prom"
    place = unreachable_night(tmp_path)
    told = ["--metrics-file", str(path), "--metrics-push", "http://127.0.0.1:1"]
    result = CliRunner().invoke(main, ["nightly", *place, *told])
    assert result.exit_code == 5, result.output
    assert "warning: the metrics were not pushed to http://127.0.0.1:1: " in result.stderr
    (code,) = [
        sample
        for family in text_string_to_metric_families(path.read_text())
        if family.name == f"{PREFIX}exit_code"
        for sample in family.samples
    ]
    assert (code.labels, code.value) == ({"command": "nightly", "output": str(tmp_path / "out")}, 5)


def test_the_documentation_names_every_metric() -> None:
    page = (ROOT / "deploy" / "docs" / "pages" / "howto" / "watch-nights.md").read_text()
    names = {family.name for family in [success_family(summary()), *run_families(summary())]}
    assert sorted(names) == sorted({each for each in page.replace("`", " ").split() if each.startswith(PREFIX)})
