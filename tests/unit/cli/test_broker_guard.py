"""The guard of a broker: passes signals on, mirrors its status, acts on its death, and takes it along. The broker is a stand-in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkalite.cli import broker_guard
from kafkalite.cli.main import main
from kafkalite.local.broker_process import wait_until

GUARD = "import os, signal, sys; from kafkalite.cli.broker_guard import fork_guarded\n{before}fork_guarded(lambda: {after})\n"
WAITS = "print(os.getpid(), flush=True)\nimport time\nwhile True: time.sleep(0.02)"
"""A signal right before `signal.pause()` would be heard after the next one only."""


@contextmanager
def guarded(broker: str, after: str = "print('after its death')", before: str = "") -> Iterator[subprocess.Popen[str]]:
    program = GUARD.format(after=after, before=before) + broker
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def child_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def rest_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the status and what was printed until the end."""
    return process.wait(20), process.stdout.read() if process.stdout is not None else ""


@pytest.mark.parametrize(
    ("broker", "ended"),
    [("sys.exit(0)", (0, "")), ("sys.exit(3)", (3, "after its death\n")), ("os._exit(1)", (1, "after its death\n"))],
)
def test_the_status_is_that_of_the_broker(broker: str, ended: tuple[int, str]) -> None:
    with guarded(broker) as process:
        assert rest_of(process) == ended


def test_a_killed_broker_is_noticed_and_shown_as_shells_show_it() -> None:
    with guarded(WAITS) as process:
        os.kill(child_of(process), signal.SIGKILL)
        assert rest_of(process) == (128 + signal.SIGKILL, "after its death\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_signals_are_passed_on(number: int) -> None:
    # As in the background of a shell, but not as below `nohup`, of which these tests may run.
    before = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    broker = f"signal.signal({int(number)}, lambda *_: (print('heard', flush=True), os._exit(0)))\n{WAITS}"
    with guarded(broker, before=before) as process:
        child_of(process)
        process.send_signal(number)
        assert rest_of(process) == (0, "heard\n")


def test_what_the_caller_ignores_stays_ignored() -> None:
    with guarded(WAITS, before="signal.signal(signal.SIGHUP, signal.SIG_IGN)\n") as process:
        child = child_of(process)
        process.send_signal(signal.SIGHUP)
        os.kill(child, signal.SIGKILL)
        assert rest_of(process)[0] == 128 + signal.SIGKILL


@pytest.mark.parametrize("moment", ["", "os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\n"], ids=["soon", "before"])
def test_children_that_are_inherited_are_reaped_and_no_end_of_the_broker(moment: str) -> None:
    """As PID 1 of a container a guard inherits what other processes leave behind."""
    before = f"pid = os.spawnlp(os.P_NOWAIT, 'true', 'true')\n{moment}"
    broker = f"{WAITS.replace('os.getpid()', 'os.getpid(), pid')}"
    with guarded(broker, before=before) as process:
        assert process.stdout is not None
        child, inherited = map(int, process.stdout.readline().split())
        wait_until(lambda: not Path(f"/proc/{inherited}").exists(), "the inherited process is reaped", 20)
        assert process.poll() is None
        os.kill(child, signal.SIGTERM)
        assert rest_of(process)[0] == 128 + signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent ended")
def test_a_broker_does_not_outlive_its_guard() -> None:
    with guarded("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAITS) as process:
        child = child_of(process)
        process.kill()
        process.wait(20)
        wait_until(lambda: has_ended(child), "the broker ends with its guard", 20)


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_an_error_after_the_death_changes_no_status() -> None:
    with guarded("sys.exit(3)", after="1 / 0") as process:
        status, printed = rest_of(process)
    assert status == 3 and "ZeroDivisionError" in printed


@pytest.mark.parametrize(("mode", "told"), [("session", ""), ("observe", "found"), ("evidence", "found")])
def test_the_mode_decides_what_is_done_after_a_death(mode: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forked(Exception):
        """Raised in place of the fork."""

    def fork(after_death: Any) -> None:
        after_death()
        raise Forked

    monkeypatch.setattr(broker_guard, "fork_guarded", fork)
    monkeypatch.setattr("kafkalite.local.dead_broker.end_session_of_dead_broker", lambda config: "found")
    settings = ("-X", "zookeeper.connect=localhost:1", "-X", f"kafkalite.failover.detection={mode}")
    result = CliRunner().invoke(main, ["broker", "--guard", *settings])
    assert isinstance(result.exception, Forked) and (told in result.stderr) and bool(result.stderr) == bool(told)
