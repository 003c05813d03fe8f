"""Prometheus itself with the settings of deploy/prometheus: it accepts them, and scrapes brokers by them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import kafkalite
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import ReservedPort
from tests.conftest import foreign_program
from zk.servers.ensemble import end_with_parent

FOLDER: Final = Path(kafkalite.__file__).parents[1] / "deploy" / "prometheus"
SETTINGS: Final = FOLDER / "prometheus.yml"
ALERTS: Final = FOLDER / "alerts.yml"
SCRAPE_TIMEOUT_S: Final = 60


def check(path: Path) -> subprocess.CompletedProcess[str]:
    command = [foreign_program("promtool", "prometheus"), "check", "config", str(path)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)


def test_prometheus_accepts_the_settings() -> None:
    done = check(SETTINGS)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("file", "right", "wrong"), [(SETTINGS, "static_configs", "static_config"), (ALERTS, "sum(", "sum((")]
)
def test_prometheus_would_find_errors(tmp_path: Path, file: Path, right: str, wrong: str) -> None:
    for each in (SETTINGS, ALERTS):
        shutil.copy(each, tmp_path)
    tmp_path.joinpath(file.name).write_text(file.read_text().replace(right, wrong))
    assert check(tmp_path / SETTINGS.name).returncode != 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, http=True) as running:
        yield running


@pytest.fixture
def prometheus(cluster: LocalCluster, tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes the cluster, once a second, by the settings in all else."""
    settings = yaml.safe_load(SETTINGS.read_text())
    settings["global"]["scrape_interval"] = "1s"
    (job,) = settings["scrape_configs"]
    (group,) = job["static_configs"]
    group["targets"] = [f"localhost:{broker.http_port}" for broker in cluster.brokers.values()]
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(settings))
    shutil.copy(ALERTS, tmp_path)
    with ReservedPort() as port, (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                foreign_program("prometheus", "prometheus"),
                f"--config.file={path}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port.number}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_parent(),
        )
        try:
            yield f"http://127.0.0.1:{port.number}"
        finally:
            process.terminate()
            process.wait(30)


def query(address: str, expression: str) -> list[dict[str, Any]]:
    """The samples that an expression has now; none while Prometheus does not answer yet."""
    try:
        with urllib.request.urlopen(
            f"{address}/api/v1/query?query={urllib.parse.quote(expression)}", timeout=10
        ) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    except (urllib.error.URLError, ConnectionError):
        return []
    return found


def test_every_broker_is_scraped_and_no_alert_is_raised(prometheus: str) -> None:
    def scraped() -> bool:
        return len(query(prometheus, 'up{job="kafkalite"} == 1')) == 3

    wait_until(scraped, "a scrape of every broker", SCRAPE_TIMEOUT_S)
    expressions = [rule["expr"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    for expression in expressions:
        assert query(prometheus, expression) == []
    of_brokers = r"kafkalite_(?!spark_)\w+"  # those of runs on Spark: test_run_metrics
    for metric in {name for expression in expressions for name in re.findall(of_brokers, expression)}:
        assert query(prometheus, metric), f"brokers have no {metric}"
