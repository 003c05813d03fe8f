"""What `deploy/spark` hands to spark-submit and to Airflow."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from spark_jobs.batch.failures import Exit

FOLDER = Path(__file__).parents[3] / "deploy" / "spark"
JOB = ["nightly", "--topic", "a b", "--output", "hdfs://name/out"]


@pytest.fixture
def submitted(tmp_path: Path) -> Callable[..., list[str]]:
    """What a script hands to spark-submit, word by word."""
    program = tmp_path / "spark-submit"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    for name in ("environment.tar.gz", "nightly.py"):
        (tmp_path / name).touch()

    def submit(script: str, *arguments: str) -> list[str]:
        environment = {**os.environ, "SPARK_SUBMIT": str(program), "PACKAGE": str(tmp_path)}
        environment["SPARK_OPTIONS"] = "--executor-memory 4g"
        done = subprocess.run(
            [str(FOLDER / script), *arguments], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.splitlines()

    return submit


def test_standalone(submitted: Callable[..., list[str]]) -> None:
    words = submitted("submit-standalone", "spark://master:7077", *JOB)
    assert words[:4] == ["--master", "spark://master:7077", "--deploy-mode", "client"]
    assert words[4:] == ["--executor-memory", "4g", str(FOLDER / "nightly.py"), *JOB]


def test_yarn(submitted: Callable[..., list[str]], tmp_path: Path) -> None:
    words = submitted("submit-yarn", *JOB)
    assert words[:4] == ["--master", "yarn", "--deploy-mode", "cluster"]
    assert f"{tmp_path}/environment.tar.gz#environment" in words
    assert words[-len(JOB) - 1 :] == [str(tmp_path / "nightly.py"), *JOB]


def test_kubernetes(submitted: Callable[..., list[str]]) -> None:
    words = submitted("submit-kubernetes", "https://api:6443", "registry/image:1", *JOB)
    assert words[:4] == ["--master", "k8s://https://api:6443", "--deploy-mode", "cluster"]
    assert "spark.kubernetes.container.image=registry/image:1" in words
    assert words[-len(JOB) - 1 :] == ["local:///opt/kafkalite/nightly.py", *JOB]


@pytest.mark.parametrize("script", ["submit-standalone", "submit-yarn", "submit-kubernetes"])
def test_scripts_say_how_they_are_used(script: str) -> None:
    done = subprocess.run([str(FOLDER / script)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "Usage: ./deploy/spark/" in done.stderr


def test_program_for_spark_submit_is_the_commands() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "nightly.py"), "--help"], capture_output=True, text=True, timeout=120, check=True
    )
    assert "backfill" in done.stdout


class Failed(Exception):
    """Airflow's exception for another try."""


class FailedForGood(Exception):
    """Airflow's exception for no other try."""


@pytest.fixture
def airflow_task(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The task of the DAG, with the least of Airflow that it needs."""
    tasks: list[Callable[..., None]] = []
    decorators, exceptions = ModuleType("airflow.decorators"), ModuleType("airflow.exceptions")

    def task(function: Callable[..., None]) -> Callable[..., None]:
        tasks.append(function)
        return lambda: None

    decorators.__dict__.update(dag=lambda **_: lambda function: function, task=task)
    exceptions.__dict__.update(AirflowException=Failed, AirflowFailException=FailedForGood)
    timetables = ModuleType("airflow.timetables.interval")
    timetables.__dict__.update(CronDataIntervalTimetable=lambda cron, timezone: cron)
    for module in (ModuleType("airflow"), decorators, exceptions, ModuleType("airflow.timetables"), timetables):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "airflow.sdk", None)
    runpy.run_path(str(FOLDER / "airflow_dag.py"))
    (found,) = tasks
    return found


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Exit.OK, None),
        (Exit.FAILED, Failed),
        (Exit.EXISTS, Failed),
        (Exit.UNREACHABLE, Failed),
        (Exit.CHECK_FAILED, FailedForGood),
        (Exit.DATA_LOSS, FailedForGood),
        (Exit.DEAD_LETTERS, FailedForGood),
    ],
)
def test_airflow_tries_again_where_that_can_help(
    code: Exit, error: type[Exception] | None, airflow_task: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        seen.append(command)
        return subprocess.CompletedProcess(command, int(code))

    monkeypatch.setattr(subprocess, "run", run)
    day = datetime(2013, 6, 15, tzinfo=UTC)
    if error is None:
        airflow_task(data_interval_start=day)
    else:
        with pytest.raises(error):
            airflow_task(data_interval_start=day)
    assert seen[0][1:5] == ["spark", "run", "--date", "2013-06-15"]
