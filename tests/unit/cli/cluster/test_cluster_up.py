"""`kafkalite cluster up`, as far as it needs no cluster."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkalite.cli.cluster import command
from kafkalite.local import cluster as local
from kafkalite.local.ports import span


class Dying:
    """A cluster that dies at its start, and whose brokers stop one after the other."""

    stopped = 0

    def __init__(self, **options: Any) -> None:
        pass

    def fixed_ports(self) -> dict[str, range]:
        return {}

    def start(self, tell: Callable[[str], None]) -> None:
        raise TimeoutError("not ready")

    def close(self, tell: Callable[[str], None]) -> dict[int, int | None]:
        for broker in range(3):
            tell(f"broker {broker}: 5 leaders are left")
            Dying.stopped += 1
        return {}


@pytest.fixture
def signals() -> Iterator[None]:
    """The command takes them over."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_brokers_are_stopped_though_nobody_reads_stderr_any_more(
    signals: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(text: str) -> None:
        raise BrokenPipeError(text)

    monkeypatch.setattr(command, "note", gone)
    monkeypatch.setattr(local, "LocalCluster", Dying)
    result = CliRunner().invoke(command.cluster, ["up"])
    assert Dying.stopped == 3 and result.exit_code == 1


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_named_before_anything_starts(
    signals: None, taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: object) -> None:
        raise AssertionError("nothing may start")

    monkeypatch.setattr(local.LocalCluster, "start", start)
    result = CliRunner().invoke(command.cluster, ["up", "--brokers", "1", "--base-port", str(taken_port)])
    assert result.exit_code == 1
    said = result.stderr.splitlines()
    assert said[0].startswith(f"starting on ports {taken_port} (brokers), {taken_port + 100} (ZooKeeper)")
    assert said[1].startswith(f"Error: port {taken_port} (brokers) is taken; see by whom: ss -ltnp")


def test_ports_follow_from_the_base_port() -> None:
    cluster = local.LocalCluster(brokers=3, zookeepers=3, base_port=9092, http=True, secure=True)
    assert {what: span(ports) for what, ports in cluster.fixed_ports().items()} == {
        "brokers": "9092 to 9094",
        "ZooKeeper": "9192 to 9194",
        "status pages": "9292 to 9294",
        "brokers among each other": "9392 to 9394",
    }
    assert local.LocalCluster(brokers=3).fixed_ports() == {}


def test_a_full_disk_is_named(signals: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def start(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local.LocalCluster, "start", start)
    result = CliRunner().invoke(command.cluster, ["up", "--data-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "No space left on device; make room in" in result.stderr.splitlines()[-1]
