"""`kafkalite spark …` becomes `python -m spark_jobs …`, with all that follows."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner

from kafkalite.cli.main import main


class Became(Exception):
    """Instead of the other program."""


@pytest.mark.parametrize(
    ("given", "job"),
    [
        (["run", "--date", "2013-06-15", "--output", "-x"], ["nightly", "--date", "2013-06-15", "--output", "-x"]),
        (["backfill", "--help"], ["backfill", "--help"]),
        (["audit", "-o", "json", "--", "x"], ["audit", "-o", "json", "--", "x"]),
        (["status"], ["status"]),
    ],
)
def test_arguments_are_handed_over_as_they_are(
    given: list[str], job: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def become(program: str, arguments: list[str]) -> NoReturn:
        seen.append((program, arguments))
        raise Became

    monkeypatch.setenv("_KAFKALITE_SPARK_CALLED_AS", "")  # it is as before afterwards
    monkeypatch.setattr(os, "execv", become)
    result = CliRunner().invoke(main, ["spark", *given])
    assert isinstance(result.exception, Became)
    assert os.environ["_KAFKALITE_SPARK_CALLED_AS"] == given[0]
    assert seen == [(sys.executable, [sys.executable, "-m", "spark_jobs", *job])]


def test_without_spark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    result = CliRunner().invoke(main, ["spark", "status"])
    assert result.exit_code == 2
    assert "pip install 'kafkalite[spark]'" in result.stderr


def test_exit_code_is_that_of_the_job() -> None:
    arguments = ["backfill", "--topic", "t", "--output", "o", "--from", "2013-02-01", "--to", "2013-01-01"]
    done = subprocess.run(
        [sys.executable, "-m", "kafkalite", "spark", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "Error: the last date 2013-01-01 is before the first one 2013-02-01\n")


@pytest.mark.parametrize(("command", "job"), [("run", "nightly"), ("archive", "archive")])
def test_help_and_errors_name_the_command_that_was_typed(command: str, job: str) -> None:
    program = [sys.executable, "-m", "kafkalite", "spark", command]
    environment = {**os.environ, f"KAFKALITE_SPARK_{job.upper()}_TOPICS": "t"}

    def said(*arguments: str) -> str:
        done = subprocess.run(
            [*program, *arguments], capture_output=True, text=True, timeout=120, check=False, env=environment
        )
        return done.stdout + done.stderr

    assert said("--help").startswith(f"Usage: kafkalite spark {command} [OPTIONS]\n")
    refused = said()
    assert f"Try 'kafkalite spark {command} --help' for help." in refused
    assert "Missing option '--output'" in refused, "variables have the job's own name"
    direct = subprocess.run(
        [sys.executable, "-m", "spark_jobs", job, "--help"], capture_output=True, text=True, timeout=120, check=False
    )
    assert direct.stdout.startswith(f"Usage: python -m spark_jobs {job} [OPTIONS]\n")
