"""`kafkalite cluster up`, as far as it needs no cluster."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from kafkalite.cli.cluster import command
from kafkalite.local import cluster as local


class Dying:
    """A cluster that dies at its start, and whose brokers stop one after the other."""

    stopped = 0

    def __init__(self, **options: Any) -> None:
        pass

    def start(self) -> None:
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
