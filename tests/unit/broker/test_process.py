"""A broker as a process: what ends it, and its last line."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.broker import process
from kafkalite.errors import ensure
from kafkalite.lifecycle import UnexpectedErrors


class FakeStore:
    def __init__(self, *_: Any) -> None: ...

    def add_session_listener(self, listener: Any) -> None: ...

    async def start(self, timeout_s: float) -> None: ...

    async def close(self) -> None: ...


class FakeBroker:
    """Starts, and then its callback goes wrong; `stop_fails` tells how it stops."""

    stop_fails = False
    broker_id = 7

    def __init__(self, config: Any, session: Any, disk: Any, clock: Any, rng: Any, fatal: Any, run_pass: Any) -> None:
        self.errors = UnexpectedErrors(fatal)

    async def start(self) -> None:
        asyncio.get_running_loop().call_later(0.01, ensure, False, "the high watermark went back")

    async def stop(self) -> None:
        if self.stop_fails:
            raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("stop_fails", [False, True])
def test_a_broken_invariant_in_a_callback_left_the_broker_running(
    stop_fails: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "Broker", FakeBroker)
    monkeypatch.setattr(process, "KazooStore", FakeStore)
    monkeypatch.setattr(process, "preload", lambda: None)
    monkeypatch.setattr(process, "_handle_signals", lambda loop, stop: None)
    monkeypatch.setattr(process.gc, "freeze", lambda: None)
    monkeypatch.setattr(FakeBroker, "stop_fails", stop_fails)
    config: Any = SimpleNamespace(
        zookeeper_connect="",
        zookeeper_session_timeout_ms=1000,
        zookeeper_max_in_flight_requests=1,
        zookeeper_connection_timeout_ms=1000,
    )
    assert process.run(config) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("kafkalite broker: invariant broken: the high watermark went back (Exception in callback")
