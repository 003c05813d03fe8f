"""A broker as a process: what ends it, and its last line."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from kafkalite.broker import process
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.keys import ConfigError
from kafkalite.errors import ensure
from kafkalite.lifecycle import UnexpectedErrors
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.native.native_store import NativeStore
from zk.security.store_security import PLAINTEXT


class FakeStore:
    def __init__(self, *_: Any) -> None: ...

    def add_session_listener(self, listener: Any) -> None: ...

    async def start(self, timeout_s: float) -> None: ...

    async def close(self) -> None: ...


class FakeBroker:
    """Starts, and then its callback goes wrong; `stop_fails` tells how it stops."""

    stop_fails = False
    broker_id = 7
    left_to_stop = "nothing"

    def __init__(self, config: Any, session: Any, disk: Any, clock: Any, rng: Any, fatal: Any, *_: Any) -> None:
        self.errors = UnexpectedErrors(fatal)
        self.own_session = session.store

    async def start(self) -> None:
        asyncio.get_running_loop().call_later(0.01, ensure, False, "the high watermark went back")

    async def stop(self) -> None:
        if self.stop_fails:
            raise ZeroDivisionError("a bug")


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of a broker whose parts are stand-ins."""
    monkeypatch.setattr(process, "Broker", FakeBroker)
    monkeypatch.setattr(process, "KazooStore", FakeStore)
    monkeypatch.setattr(process, "_handle_signals", lambda loop, stop: None)
    monkeypatch.setattr(process.gc, "freeze", lambda: None)
    return BrokerConfig.from_properties({"zookeeper.connect": "localhost:1", "log.dirs": "/nowhere"})


@pytest.mark.parametrize("stop_fails", [False, True])
def test_a_broken_invariant_in_a_callback_left_the_broker_running(
    stop_fails: bool, config: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FakeBroker, "stop_fails", stop_fails)
    assert process.run(config) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("kafkalite broker: invariant broken: the high watermark went back (Exception in callback")


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_broker_without_compiled_code_says_so(
    is_compiled: bool, config: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "IS_COMPILED", is_compiled)
    caplog.set_level(logging.INFO)
    process.run(config)
    assert ("records are read and written by Python" in caplog.text) is not is_compiled


def test_a_stop_says_what_is_left_as_often_as_it_changes(
    config: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def stop(self: FakeBroker) -> None:
        for left in (3, 3, 1):
            self.left_to_stop = f"{left} leaders to hand over"
            await asyncio.sleep(0.05)

    monkeypatch.setattr(FakeBroker, "stop", stop)
    monkeypatch.setattr(process, "_PROGRESS_S", 0.01)
    process.run(config)
    told = [line for line in capsys.readouterr().out.splitlines() if "stopping" in line]
    wanted = [f"[KafkaServer id=7] stopping: {left} leaders to hand over" for left in (3, 1)]
    assert told[-2:] == wanted


def test_zookeeper_that_is_away_is_named_with_what_helps(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def start(store: FakeStore, timeout_s: float) -> None:
        raise TimeoutError("no session with ZooKeeper at z:1 within 18 s")

    monkeypatch.setattr(FakeStore, "start", start)
    assert process.run(config) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("kafkalite broker: no session with ZooKeeper at z:1 within 18 s; does it run there?")
    assert "doctor --only zookeeper" in last


@pytest.mark.parametrize(("client", "store"), [(None, KazooStore), ("kazoo", KazooStore), ("native", NativeStore)])
def test_the_client_of_zookeeper_is_a_setting(client: str | None, store: type) -> None:
    given = {} if client is None else {"kafkalite.zookeeper.client": client}
    config = BrokerConfig.from_properties({"zookeeper.connect": "localhost:1", **given})
    assert type(process._make_store(config, PLAINTEXT)) is store


def test_a_client_of_zookeeper_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match="kazoo, native"):
        BrokerConfig.from_properties({"zookeeper.connect": "z", "kafkalite.zookeeper.client": "curator"})


def test_the_collector_runs_seldom_while_logs_are_opened(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Python's own schedule it took a third of the time in which a hundred thousand logs were opened."""
    before, during = gc.get_threshold(), []

    async def start(self: FakeBroker) -> None:
        during.append(gc.get_threshold())
        raise ZeroDivisionError("seen")

    monkeypatch.setattr(FakeBroker, "start", start)
    assert process.run(config) == 1
    assert during[0][0] > 10 * before[0] and during[0][2] > 10 * before[2]
    assert gc.get_threshold() == before


def test_the_end_of_a_start_looks_at_young_objects_only(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The objects of a hundred thousand logs held the event loop for half a second, just when it was asked first."""
    collected: list[int] = []
    monkeypatch.setattr(process.gc, "collect", lambda generation=2: collected.append(generation))
    process.run(config)
    assert collected == [0]
