"""Timer, service, line of cron and DAG of one description: each starts the run that was described, and tries again where that helps."""

from __future__ import annotations

import configparser
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from deploy.docs.staging import ROOT
from spark_jobs.batch.failures import BadRequestError, Exit
from spark_jobs.commands import main, nightly
from spark_jobs.observation.schedule import (
    NOT_WORTH_A_RETRY,
    Schedule,
    quote_path,
    quote_word,
    write_cron,
    write_dag,
    write_service,
    write_timer,
)

ODD = ["--topic", "flights", "--output", "/data/my nightly", "--on-failure", """echo 100% $X "a" 'b' \\ ; # é"""]
SCHEDULE = Schedule(
    "night", "01:05", "Europe/Berlin", "/opt/k", ODD, "data", 3, 10, 5, date(2026, 3, 4), ["/data/my nightly"]
)


def section(text: str, name: str) -> dict[str, str]:
    parsed = configparser.RawConfigParser(strict=False, delimiters="=", comment_prefixes="#")
    parsed.optionxform = str  # type: ignore[method-assign, assignment]
    parsed.read_string(text)
    return dict(parsed[name])


def test_timer_and_service() -> None:
    assert section(write_timer(SCHEDULE), "Timer")["OnCalendar"] == "*-*-* 01:05:00 Europe/Berlin"
    service = section(write_service(SCHEDULE), "Service")
    assert service["ExecStart"] == (
        '/opt/k spark run --topic flights --output "/data/my nightly" --on-failure '
        """"echo 100%% $$X \\"a\\" 'b' \\\\ ; # é\""""
    )
    assert service["ReadWritePaths"] == '"/data/my nightly"'
    assert (service["User"], service["RestartSec"], service["TimeoutStartSec"]) == ("data", "10min", "5h")
    assert service["RestartPreventExitStatus"] == "2 3 6 7 8 9 10"
    assert section(write_service(SCHEDULE), "Unit")["StartLimitIntervalSec"] == "930min"


def test_the_service_is_as_safe_as_the_one_that_is_delivered() -> None:
    """What `deploy/systemd` has and this one has not, and the other way round, is the run itself."""
    delivered = section((ROOT / "deploy" / "systemd" / "kafkalite-nightly.service").read_text(), "Service")
    made = section(write_service(SCHEDULE), "Service")
    differing = {name for name in {*delivered, *made} if delivered.get(name) != made.get(name)}
    expected = {"User", "Group", "EnvironmentFile", "ExecStart", "StateDirectory", "WorkingDirectory", "ReadWritePaths"}
    assert differing == expected


def test_cron_starts_the_described_run(tmp_path: Path) -> None:
    """The line as cron reads it: five fields, a user, and what a shell gets once percent signs are unescaped."""
    program = tmp_path / "k"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    lines = write_cron(Schedule(**{**_fields(SCHEDULE), "program": str(program)})).splitlines()
    assert all(line.startswith("#") for line in lines[:-2]) and lines[-2] == "CRON_TZ=Europe/Berlin"
    *fields, user, command = lines[-1].split(None, 6)
    assert (fields, user) == (["5", "1", "*", "*", "*"], "data")
    assert command.count("%") == command.count("\\%"), "cron makes line breaks of others"
    done = subprocess.run(["/bin/sh", "-c", command.replace("\\%", "%")], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["spark", "run", *ODD, "--wait", "3600"]


def test_a_run_that_says_how_long_it_waits_does_so() -> None:
    waiting = Schedule(**{**_fields(SCHEDULE), "arguments": ["--wait", "5"]})
    assert write_cron(waiting).endswith("--wait 5\n")


def _fields(schedule: Schedule) -> dict[str, Any]:
    return {name: getattr(schedule, name) for name in Schedule.__slots__}


class Failed(Exception):
    """Airflow's exception for another try."""


class FailedForGood(Exception):
    """Airflow's exception for no other try."""


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], list[Callable[..., None]]]:
    """The least of Airflow 2 that the DAG needs: what it was given, and its tasks."""
    given: dict[str, Any] = {}
    tasks: list[Callable[..., None]] = []

    def task(function: Callable[..., None]) -> Callable[..., None]:
        tasks.append(function)
        return lambda: None

    def dag(**options: Any) -> Callable[[Callable[[], None]], Callable[[], None]]:
        given.update(options)
        return lambda function: function

    class CronDataIntervalTimetable:
        def __init__(self, cron: str, timezone: str) -> None:
            self.cron, self.timezone = cron, timezone

    contents: dict[str, dict[str, Any]] = {
        "airflow": {},
        "airflow.decorators": {"dag": dag, "task": task},
        "airflow.exceptions": {"AirflowException": Failed, "AirflowFailException": FailedForGood},
        "airflow.timetables": {},
        "airflow.timetables.interval": {"CronDataIntervalTimetable": CronDataIntervalTimetable},
        "pendulum": {
            "datetime": lambda *parts, tz: datetime(*parts, tzinfo=ZoneInfo(tz)),
            "timezone": ZoneInfo,
        },
    }
    for name, content in contents.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "airflow.sdk", None)
    return given, tasks


def test_the_dag_runs_each_day_of_the_zone(
    airflow: tuple[dict[str, Any], list[Callable[..., None]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, tasks = airflow
    exec(compile(write_dag(SCHEDULE), "dag.py", "exec"), {})
    assert (given["dag_id"], given["catchup"], given["max_active_runs"]) == ("night", True, 1)
    assert (given["schedule"].cron, given["schedule"].timezone) == ("5 1 * * *", "Europe/Berlin")
    assert given["start_date"] == datetime(2026, 3, 4, tzinfo=ZoneInfo("Europe/Berlin"))
    assert given["default_args"]["retries"] == 2 and given["default_args"]["retry_delay"] == timedelta(minutes=10)
    seen: list[list[str]] = []
    code = Exit.OK

    def run(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        seen.append(command)
        return subprocess.CompletedProcess(command, int(code))

    monkeypatch.setattr(subprocess, "run", run)
    # 01:05 in Berlin is the evening before in UTC.
    begin = datetime(2026, 3, 9, 23, 5, tzinfo=timezone(timedelta(hours=-1))).astimezone(UTC)
    tasks[0](data_interval_start=begin)
    assert seen == [["/opt/k", "spark", "run", *ODD, "--date", "2026-03-10"]]
    for code in Exit:
        if code is Exit.OK:
            continue
        with pytest.raises(FailedForGood if code in NOT_WORTH_A_RETRY else Failed, match=f"exit code {int(code)}:"):
            tasks[0](data_interval_start=begin)


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("-Xa=b", "-Xa=b"),
        ("a b", '"a b"'),
        ("", '""'),
        (";", '";"'),
        ("50%", '"50%%"'),
        ("$HOME", '"$$HOME"'),
        ('say "x"\\', '"say \\"x\\"\\\\"'),
        ("é", '"é"'),
    ],
)
def test_words_as_systemd_takes_them(word: str, quoted: str) -> None:
    assert quote_word(word) == quoted
    assert quote_path("/a$b %") == '"/a$b %%"'


RUN = ["--topic", "flights", "--output", "/data/nightly", "-b", "h:1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at", "24:00", *RUN], "--at '24:00' is no time of the day"),
        (["--unit", "a b", *RUN], "--unit 'a b' is no name"),
        ([*RUN, "--date", "yesterday"], "--date is not for a schedule"),
        ([*RUN, "--date=today"], "--date is not for a schedule"),
        (["--topic", "t"], "Missing option '--output'"),
        ([*RUN, "--no-such-option"], "No such option"),
        ([*RUN, "--time-zone", "Mars"], "there is no time zone 'Mars'"),
        ([*RUN, "--on-failure", "a\nb"], "has a line break"),
    ],
)
def test_what_no_schedule_can_have(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["schedule", *arguments])
    assert result.exit_code == 2, result.output
    assert message in result.stderr


def test_all_forms_are_of_the_same_run() -> None:
    arguments = [*RUN, "-X", "security.protocol=SSL", "--metrics-file", "/var/lib/node_exporter/n.prom"]
    whole = CliRunner().invoke(main, ["schedule", "--at", "02:00", *arguments, "--user", "me"])
    assert whole.exit_code == 0, whole.output
    for form in ("timer", "service", "cron", "airflow"):
        one = CliRunner().invoke(main, ["schedule", "--as", form, "--at", "02:00", *arguments, "--user", "me"])
        assert one.exit_code == 0 and one.stdout in whole.stdout
        if form != "timer":
            assert "security.protocol=SSL" in one.stdout
    command = section(CliRunner().invoke(main, ["schedule", "--as", "service", *arguments]).stdout, "Service")
    words = shlex.split(command["ExecStart"])
    assert words == ["/opt/kafkalite/bin/kafkalite", "spark", "run", *arguments]
    assert nightly.make_context("run", words[3:]).params["topics"] == ("flights",)
    assert "ReadWritePaths=/data/nightly\nReadWritePaths=/var/lib/node_exporter\n" in whole.stdout


def test_names_for_a_unit_are_checked_before_anything_is_written() -> None:
    with pytest.raises(BadRequestError, match=r"--unit '\.\./x'"):
        Schedule(**{**_fields(SCHEDULE), "name": "../x"}).check()
