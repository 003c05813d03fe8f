"""Commands after a run: what they get, how long they may take, and that they change nothing."""

from __future__ import annotations

import json
import os
import shlex
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkalite.local.broker_process import wait_until
from spark_jobs.commands import main
from spark_jobs.observation.hooks import run_hook
from tests.unit.spark_jobs.observation.example_runs import summary, unreachable_night


def test_a_hook_gets_the_run_in_variables_and_as_json(tmp_path: Path) -> None:
    told: list[str] = []
    run_hook(
        f"cd {shlex.quote(str(tmp_path))} && env >variables && cat >run.json",
        summary(7, "differ\0ent"),
        30,
        told.append,
    )
    assert told == []
    variables = dict(line.split("=", 1) for line in (tmp_path / "variables").read_text().splitlines() if "=" in line)
    found = {name: value for name, value in variables.items() if name.startswith("KAFKALITE_RUN_")}
    assert found == {
        "KAFKALITE_RUN_COMMAND": "nightly",
        "KAFKALITE_RUN_RESULT": "failed",
        "KAFKALITE_RUN_EXIT_CODE": "7",
        "KAFKALITE_RUN_ERROR": "different",
        "KAFKALITE_RUN_OUTPUT": summary().output,
        "KAFKALITE_RUN_TOPICS": "flights orders",
        "KAFKALITE_RUN_DATES": "2013-06-15",
        "KAFKALITE_RUN_REPORT": "",
    }
    document = json.loads((tmp_path / "run.json").read_text())
    assert document == summary(7, "differ\0ent").to_json()
    assert document["jobs"][0]["counts"] == {"records": 125, "late": 5, "dead_letters": 10}
    assert document["audits"][1] == {"topic": "orders", "date": "2013-06-15", "differences": 2, "pending": 3}


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("no-such-program-anywhere 2>/dev/null", 127)])
def test_a_hook_that_fails_is_told(command: str, code: int) -> None:
    told: list[str] = []
    run_hook(command, summary(), 30, told.append)
    assert told == [f"warning: the hook {command!r} ended with exit code {code}"]


def test_a_hook_that_does_not_end_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "pid"
    command = f"sleep 600 & echo $! >{shlex.quote(str(path))}; wait"
    begun_s = time.monotonic()
    run_hook(command, summary(), 1.5, told.append)
    assert time.monotonic() - begun_s < 60
    assert len(told) == 1 and "was killed: it took more than 1.5 s (--hook-timeout)" in told[0]
    pid = int(path.read_text())
    wait_until(lambda: not _is_alive(pid), "the end of what the hook has started", 30)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.parametrize(("hook", "hook_exit"), [("--on-failure", 0), ("--on-failure", 9), ("--on-success", 0)])
def test_a_hook_changes_no_exit_code(tmp_path: Path, hook: str, hook_exit: int) -> None:
    path = tmp_path / "called"
    place = unreachable_night(tmp_path)
    command = f"echo $KAFKALITE_RUN_EXIT_CODE >{shlex.quote(str(path))}; exit {hook_exit}"
    result = CliRunner().invoke(main, ["archive", *place, hook, command])
    assert result.exit_code == 5
    assert "Error: no broker can be reached" in result.stderr
    if hook == "--on-failure":
        assert path.read_text() == "5\n"
        assert ("ended with exit code 9" in result.stderr) == (hook_exit == 9)
    else:
        assert not path.exists()


def test_a_time_limit_is_positive() -> None:
    result = CliRunner().invoke(main, ["nightly", "--topic", "t", "--output", "o", "--hook-timeout", "0"])
    assert result.exit_code == 2 and "--hook-timeout" in result.stderr
