"""What programs do with standard streams that are closed, on a full disk, or without a reader."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kafkalite.tool_names import TOOLS
from tests.unit.legacy.test_start import broker as broker  # a fixture

ENTRIES = ["kafkalite.cli.main:main", *(f"{module}:main" for module in TOOLS.values())]
VERSIONED = [entry for entry in ENTRIES[1:] if "perf_test.producer" not in entry and "zookeeper_shell" not in entry]
"""Those that print a version on stdout."""
ENVIRONMENT = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
CALL = """
import importlib, sys
module, function = sys.argv[1].split(":")
sys.exit(getattr(importlib.import_module(module), function)(sys.argv[2:]))
"""
PROBE = """
import importlib, os, sys
module, function = sys.argv[1].split(":")
try:
    # To Kafka's zookeeper-shell `--help` is a server, for which it waits.
    getattr(importlib.import_module(module), function)([] if "zookeeper_shell" in module else ["--help"])
except SystemExit:
    pass
with open(sys.argv[2], "w") as found:
    print(*(os.readlink(f"/proc/self/fd/{number}") for number in range(3)), file=found)
"""


def run_shell(redirection: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program from a shell that redirects its streams."""
    shell = ["bash", "-c", f'exec "$@" {redirection}', "bash", sys.executable, *command]
    return subprocess.run(shell, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)


def call(entry: str, *arguments: str) -> Sequence[str]:
    return ["-c", CALL, entry, *arguments]


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_point_opens_the_descriptors_that_are_closed(entry: str, tmp_path: Path) -> None:
    done = run_shell("<&- >&- 2>&-", "-c", PROBE, entry, str(tmp_path / "found"))
    assert (done.returncode, (tmp_path / "found").read_text().split()) == (0, ["/dev/null"] * 3)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "command",
    [
        ["-m", "kafkalite", "topic", "list", "-b", "BROKER"],
        call("kafkalite.legacy.topics.tool:main", "--list", "--bootstrap-server", "BROKER"),
        ["-m", "spark_jobs", "--help"],
        ["-m", "kafkalite.cli.image", "kafka-ready", "0", "5", "-b", "BROKER"],
    ],
    ids=lambda command: command[-3],
)
def test_closed_streams_are_no_failure(closed: str, command: Sequence[str], broker: str) -> None:
    done = run_shell(closed, *(broker if word == "BROKER" else word for word in command))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_a_broker_with_closed_streams_ends_with_its_own_status(closed: str, tmp_path: Path) -> None:
    settings = {
        "broker.id": 1,
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": tmp_path / "data",
        "zookeeper.connect": "127.0.0.1:1",
        "zookeeper.connection.timeout.ms": 200,
    }
    given = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    done = run_shell(closed, "-m", "kafkalite", "broker", *given)
    assert done.returncode == 1
    assert "kafkalite broker: " in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "kafkalite", "topic", "list", "-o", "json", "-b", "BROKER"],
        ["-m", "kafkalite", "completion", "bash"],
        ["-m", "kafkalite", "--help"],
        ["-m", "kafkalite", "--version"],
        ["-m", "spark_jobs", "nightly", "--help"],
        *(call(entry, "--version") for entry in VERSIONED),
        call("kafkalite.legacy.zookeeper_shell:main"),
    ],
    ids=lambda command: " ".join(command[-2:]),
)
def test_a_full_disk_is_one_line_and_a_failure(command: Sequence[str], broker: str) -> None:
    done = run_shell(">/dev/full", *(broker if word == "BROKER" else word for word in command))
    assert done.stderr == "Error: cannot write to standard output: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "kafkalite", "--help"],
        ["-m", "kafkalite", "topic", "list", "-o", "json", "-b", "BROKER"],
        ["-m", "spark_jobs", "nightly", "--help"],
        *(call(entry, "--version") for entry in VERSIONED),
        call("kafkalite.legacy.topics.tool:main", "--list", "--bootstrap-server", "BROKER"),
    ],
    ids=lambda command: " ".join(command[-2:]),
)
def test_a_reader_that_went_away_is_no_failure(command: Sequence[str], broker: str, pipe_without_reader: int) -> None:
    words = [sys.executable, *(broker if word == "BROKER" else word for word in command)]
    done = subprocess.run(
        words, stdout=pipe_without_reader, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def pipe_without_reader() -> Iterator[int]:
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def test_a_tool_finishes_its_work_without_a_reader(pipe_without_reader: int, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from kafkalite.legacy.command_line.entry import run_tool\n"
        "def tool(words):\n"
        "    print('x' * 100_000, flush=True)\n"
        "    Path(words[0]).write_text('done')\n"
        "    return 0\n"
        "sys.exit(run_tool(tool, None))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "work")]
    done = subprocess.run(
        command, stdout=pipe_without_reader, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True, timeout=120
    )
    assert (done.returncode, done.stderr, (tmp_path / "work").read_text()) == (0, "", "done")


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["-m", "kafkalite", "topic", "nothing"], 2),
        (call("kafkalite.legacy.topics.tool:main"), 1),
        (call("kafkalite.legacy.topics.tool:main", "--list", "--bootstrap-server", "BROKER"), 0),
    ],
)
def test_the_status_is_the_same_when_stderr_is_on_a_full_disk(command: Sequence[str], status: int, broker: str) -> None:
    done = run_shell("2>/dev/full", *(broker if word == "BROKER" else word for word in command))
    assert done.returncode == status


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (
            ["-m", "kafkalite", "produce", "t", "-b", "BROKER"],
            1,
            "cannot read standard input: Bad file descriptor",
        ),
        (
            call("kafkalite.legacy.console.producer:main", "--topic", "t", "--bootstrap-server", "BROKER"),
            1,
            "cannot read standard input: Bad file descriptor",
        ),
    ],
    ids=["produce", "kafka-console-producer"],
)
def test_a_standard_input_that_cannot_be_read_is_told(
    command: Sequence[str], status: int, said: str, broker: str
) -> None:
    """As nohup leaves it: open, and not for reading."""
    done = run_shell("0>/dev/null", *(broker if word == "BROKER" else word for word in command))
    assert done.returncode == status and said in done.stderr and "Traceback" not in done.stderr
