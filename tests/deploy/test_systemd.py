"""The systemd units: accepted by systemd itself, and their command lines start what they say, with the example settings."""

from __future__ import annotations

import asyncio
import configparser
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

import kafkalite
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.local.ports import ReservedPort
from spark_jobs.commands import main as spark_jobs_command
from tests.conftest import foreign_program
from zk.servers.ensemble import HOST, end_with_parent, server_role

FOLDER: Final = Path(kafkalite.__file__).parents[1] / "deploy" / "systemd"
UNITS: Final = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".service", ".timer"))
INSTALLED: Final = "/opt/kafkalite/bin/kafkalite"
COMMAND: Final = Path(sys.executable).with_name("kafkalite")
MEMBERS: Final = (1, 2, 3)
START_TIMEOUT_S: Final = 60
LARGEST_EXPOSURE: Final = 25
"""Of `systemd-analyze security`, in tenths: "OK" is below 50, "MEDIUM" below 70; a unit without any protection has 96."""


def section(unit: str, name: str) -> Mapping[str, str]:
    parsed = configparser.RawConfigParser(strict=False, delimiters="=", comment_prefixes="#")
    parsed.optionxform = str  # type: ignore[method-assign, assignment]
    parsed.read_string((FOLDER / unit).read_text())
    return parsed[name]


def variables_of(path: Path) -> dict[str, str]:
    """The content of an EnvironmentFile."""
    lines = path.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """A copy of the units whose programs are on this machine."""
    folder = tmp_path / "units"
    folder.mkdir()
    for name in UNITS:
        folder.joinpath(name).write_text((FOLDER / name).read_text().replace(INSTALLED, str(COMMAND)))
    return folder


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = foreign_program("systemd-analyze", "systemd")
    command = [program, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)


def test_systemd_accepts_the_units(units: Path) -> None:
    done = analyze("verify", "--man=no", *(units / name for name in UNITS))
    assert (done.returncode, done.stdout) == (0, "")


def test_systemd_accepts_what_schedule_prints(tmp_path: Path) -> None:
    """A night in a zone of its own, in a folder with any name, with a hook that has all that a unit would take for its own."""
    options = [
        "--topic",
        "t",
        "--output",
        "/data/a b%",
        "--time-zone",
        "Europe/Berlin",
        "--on-failure",
        "echo 1% $X \"'\\ ;",
    ]
    for form in ("timer", "service"):
        described = ["schedule", "--as", form, "--unit", "night", "--program", str(COMMAND), *options]
        done = CliRunner().invoke(spark_jobs_command, described)
        assert done.exit_code == 0, done.output
        (tmp_path / f"night.{form}").write_text(done.stdout)
    found = analyze("verify", "--man=no", tmp_path / "night.timer", tmp_path / "night.service")
    assert (found.returncode, found.stdout) == (0, "")
    timer = (tmp_path / "night.timer").read_text()
    (calendar,) = re.findall(r"^OnCalendar=(.*)$", timer, re.MULTILINE)
    assert "Europe/Berlin" in analyze("calendar", calendar).stdout
    (tmp_path / "night.timer").write_text(timer.replace(calendar, "25:00"))
    assert "calendar" in analyze("verify", "--man=no", tmp_path / "night.timer").stdout


def test_systemd_accepts_the_broker_in_the_place_of_apache_kafka(units: Path) -> None:
    """The drop-in gives it that program's user, settings and directories, and keeps the two apart."""
    folder = units / "kafkalite-broker.service.d"
    folder.mkdir()
    text = (FOLDER / "from-apache-kafka.conf").read_text().replace(INSTALLED, str(COMMAND))
    (folder / "from-apache-kafka.conf").write_text(text)
    done = analyze("verify", "--man=no", units / "kafkalite-broker.service")
    assert (done.returncode, done.stdout) == (0, "")
    (folder / "from-apache-kafka.conf").write_text(text.replace("ExecStart=\n", "").replace("ReadWrite", "ReedWrite"))
    spoilt = analyze("verify", "--man=no", units / "kafkalite-broker.service").stdout
    assert "ReedWritePaths" in spoilt and "ExecStart" in spoilt


def test_systemd_would_find_errors(units: Path) -> None:
    """It warns of unknown settings and still succeeds: the test above looks at what it prints."""
    unit = units / "kafkalite-broker.service"
    unit.write_text(unit.read_text().replace("KillMode=", "KilMode="))
    assert "KilMode" in analyze("verify", "--man=no", unit).stdout


@pytest.mark.parametrize("unit", [name for name in UNITS if name.endswith(".service")])
def test_services_can_do_little_harm(units: Path, unit: str) -> None:
    done = analyze("security", "--offline=true", f"--threshold={LARGEST_EXPOSURE}", units / unit)
    assert done.returncode == 0, done.stdout


def test_the_user_of_the_services_is_made() -> None:
    (made,) = re.findall(r"^u (\S+) ", (FOLDER / "kafkalite.sysusers").read_text(), re.MULTILINE)
    users = {section(name, "Service")["User"] for name in UNITS if name.endswith(".service")}
    assert users == {made}


def test_the_timer_runs_every_night() -> None:
    calendar = section("kafkalite-nightly.timer", "Timer")["OnCalendar"]
    done = analyze("calendar", "--iterations=3", "--base-time=2026-11-21 12:00:00 UTC", calendar)
    assert done.returncode == 0, done.stdout
    assert re.findall(r"(2026-11-\d\d 00:30:00) UTC", done.stdout.replace("(in UTC)", ""))[-3:] == [
        f"2026-11-{day} 00:30:00" for day in (22, 23, 24)
    ]


def test_the_night_has_arguments_that_the_command_takes() -> None:
    """An option that it does not know, or a value that it does not take, is told before --help."""
    arguments = variables_of(FOLDER / "nightly.env")["NIGHTLY_ARGUMENTS"]
    command = section("kafkalite-nightly.service", "Service")["ExecStart"].replace(INSTALLED, str(COMMAND))
    assert " $NIGHTLY_ARGUMENTS" in command
    done = subprocess.run(
        [*shlex.split(command.replace("$NIGHTLY_ARGUMENTS", arguments)), "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    assert "--topic" in arguments and "--output" in arguments


class Machine:
    """What a unit finds on the machine where it runs: settings in /etc/kafkalite, data in /var/lib, names of other machines."""

    def __init__(self, folder: Path, replaced: Mapping[str, str]) -> None:
        self._replaced = {"/etc/kafkalite": f"{folder}/etc", "/var/lib": f"{folder}/var", INSTALLED: str(COMMAND)}
        self._replaced |= replaced
        self._folder = folder
        self.log_path = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        folder.joinpath("etc").mkdir(parents=True)
        for name in ("server.properties", "zoo.cfg", "zookeeper.env"):
            folder.joinpath("etc", name).write_text(self._here((FOLDER / name).read_text()))

    def _here(self, text: str) -> str:
        for name, stands_for in self._replaced.items():
            text = text.replace(name, stands_for)
        return text

    def start(self, unit: str) -> None:
        """As systemd would: the unit's command with the variables of its EnvironmentFile."""
        service = section(unit, "Service")
        variables: dict[str, str] = {}
        if (path := service.get("EnvironmentFile")) is not None:
            variables = variables_of(self._folder / "etc" / Path(path).name)
        command = re.sub(r"\$\{(\w+)\}", lambda match: variables[match[1]], self._here(service["ExecStart"]))
        for directory in service["StateDirectory"].split():
            self._folder.joinpath("var", directory).mkdir(parents=True)
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                shlex.split(command),
                env={"PATH": "/usr/bin:/bin", "HOME": "/", **_java(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent(),
            )

    def stop(self) -> int:
        """SIGTERM, as systemd would; the exit status as a shell tells it."""
        if self._process is None:
            return 0
        self._process.terminate()
        status = self._process.wait(60)
        return 128 + signal.SIGTERM if status == -signal.SIGTERM else status

    def printed(self, text: str) -> bool:
        if self._process is not None and self._process.poll() is not None:
            pytest.fail(f"ended with {self._process.returncode}:\n{self.log_path.read_text()}")
        return text in self.log_path.read_text(errors="replace")


def _java() -> dict[str, str]:
    """Where this machine has Java and ZooKeeper; on a machine of the cluster both come from packages."""
    from zk.servers.server_classes import find_java

    return {"JAVA_HOME": str(Path(find_java()).resolve().parents[1])}


@pytest.fixture
def ports() -> Iterator[list[int]]:
    reserved = [ReservedPort() for _ in range(3 * len(MEMBERS) + 1)]
    yield [each.number for each in reserved]
    for each in reserved:
        each.release()


def test_the_units_start_an_ensemble_and_a_broker(tmp_path: Path, ports: list[int]) -> None:
    clients, quorum, election = (ports[first : first + len(MEMBERS)] for first in range(0, 9, len(MEMBERS)))
    others = {
        f"server.{n}=zookeeper-{n}:2888:3888": f"server.{n}=127.0.0.1:{quorum[n - 1]}:{election[n - 1]}"
        for n in MEMBERS
    }
    servers = [
        Machine(
            tmp_path / f"zookeeper-{n}",
            {**others, "clientPort=2181": f"clientPort={clients[n - 1]}", "ZOOKEEPER_ID=1": f"ZOOKEEPER_ID={n}"},
        )
        for n in MEMBERS
    ]
    connect = ",".join(f"127.0.0.1:{port}" for port in clients)
    example = "zookeeper-1:2181,zookeeper-2:2181,zookeeper-3:2181"
    listeners = {"PLAINTEXT://:9092": f"PLAINTEXT://:{ports[-1]}", "broker-1:9092": f"127.0.0.1:{ports[-1]}"}
    broker = Machine(tmp_path / "broker-1", {example: connect, **listeners})
    machines = [*servers, broker]
    try:
        for server in servers:
            server.start("kafkalite-zookeeper.service")
        # On a slow machine a broker gives up before there is a quorum, and systemd starts it again.
        wait_until(lambda: asyncio.run(server_role(HOST, clients[0])) is not None, "a quorum", START_TIMEOUT_S)
        broker.start("kafkalite-broker.service")
        wait_until(lambda: broker.printed("[KafkaServer id=1] started"), "start of the broker", START_TIMEOUT_S)
        with ClusterFacts(connect) as facts:
            assert facts.brokers() == {1}
        assert (tmp_path / "broker-1/var/kafkalite/meta.properties").exists()
        assert [(tmp_path / f"zookeeper-{n}/var/kafkalite-zookeeper/myid").read_text() for n in MEMBERS] == [
            f"{n}\n" for n in MEMBERS
        ]
        assert broker.stop() == 0
        expected = int(section("kafkalite-zookeeper.service", "Service")["SuccessExitStatus"])
        assert [server.stop() for server in servers] == [expected for _ in MEMBERS]
    finally:
        for machine in reversed(machines):
            machine.stop()
