"""The session of a broker that was seen to end: ended only by what its own directory says, while nobody has it locked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkalite.config.broker import BROKER_KEYS, BrokerConfig
from kafkalite.local import dead_broker, death_watch
from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.local.dead_broker import end_session_of_dead_broker
from kafkalite.local.death_watch import DEFAULT_DETECTION, DETECTION, DeathWatch
from kafkalite.storage.disk import OsDisk
from kafkalite.storage.log_directory import LOCK, LogDirectory
from kafkalite.storage.session_file import FILE_NAME, SessionRecord, write_session_file
from zk.store import SessionEnding, StoreError

CONNECT = "zk.invalid:2181"
RECORD = SessionRecord(7, CONNECT, -2, b"0123456789abcdef")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What ZooKeeper was asked to end."""
    found: list[Any] = []

    def end_session(connect: str, session_id: int, password: bytes, *_: object) -> SessionEnding:
        found.append((connect, session_id, password))
        return SessionEnding.ENDED

    monkeypatch.setattr(dead_broker, "end_session", end_session)
    return found


def leave_session(log_dir: Path, record: SessionRecord = RECORD) -> None:
    directory = LogDirectory(OsDisk(), str(log_dir), 4)
    directory.open()
    write_session_file([directory], record)
    directory.close()


def config(log_dir: Path, mode: str = "evidence", **more: str) -> BrokerConfig:
    given = {name.replace("_", "."): text for name, text in more.items()}
    settings = {
        "broker.id": "7",
        "zookeeper.connect": CONNECT,
        "log.dirs": f"{log_dir}-none,{log_dir}",
        DETECTION: mode,
    }
    return BrokerConfig.from_properties(settings | given)


def test_the_session_of_a_dead_broker_is_ended(tmp_path: Path, asked: list[Any]) -> None:
    leave_session(tmp_path)
    told = end_session_of_dead_broker(config(tmp_path))
    assert asked == [(CONNECT, -2, RECORD.password)]
    assert told == "broker 7 ended without a clean stop; its ZooKeeper session 0xfffffffffffffffe was ended"
    assert not Path(f"{tmp_path}-none").exists(), "no directory is made"


@pytest.mark.parametrize(("mode", "told"), [("observe", "which mode evidence would not do"), ("session", None)])
def test_other_modes_leave_it_alone(mode: str, told: str | None, tmp_path: Path, asked: list[Any]) -> None:
    leave_session(tmp_path)
    found = end_session_of_dead_broker(config(tmp_path, mode))
    assert asked == [] and (found is None if told is None else told in (found or ""))


def test_after_a_clean_stop_there_is_nothing_to_end(tmp_path: Path, asked: list[Any]) -> None:
    leave_session(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    assert end_session_of_dead_broker(config(tmp_path)) is None and asked == []


def test_nothing_is_written_into_a_directory_that_is_being_removed(tmp_path: Path, asked: list[Any]) -> None:
    """Whoever kills a broker may remove its directory at once."""
    leave_session(tmp_path)
    (tmp_path / LOCK).unlink()
    assert end_session_of_dead_broker(config(tmp_path)) is None and asked == []
    assert not (tmp_path / LOCK).exists()


@pytest.mark.parametrize("other", [{"broker_id": "8"}, {"zookeeper_connect": "zk.invalid:2182"}])
def test_the_session_of_another_broker_or_ensemble_is_left_alone(
    other: dict[str, str], tmp_path: Path, asked: list[Any]
) -> None:
    leave_session(tmp_path)
    assert end_session_of_dead_broker(config(tmp_path, **other)) is None and asked == []


def test_a_broker_that_could_not_start_beside_a_living_one_does_that_one_no_harm(
    tmp_path: Path, asked: list[Any]
) -> None:
    leave_session(tmp_path)
    with locked_by_another_process(tmp_path):
        assert end_session_of_dead_broker(config(tmp_path)) is None
    assert asked == []
    assert end_session_of_dead_broker(config(tmp_path)) is not None


@contextmanager
def locked_by_another_process(log_dir: Path) -> Iterator[None]:
    program = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('has it', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(log_dir / LOCK)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def test_a_session_that_cannot_be_ended_is_left_to_its_timeout(
    tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_session(tmp_path)

    def fail(*_: object) -> SessionEnding:
        raise StoreError("/", "nobody answers")

    monkeypatch.setattr(dead_broker, "end_session", fail)
    assert "ends at its timeout: /: nobody answers" in (end_session_of_dead_broker(config(tmp_path)) or "")
    monkeypatch.setattr(dead_broker, "end_session", lambda *_: SessionEnding.REFUSED)
    assert (end_session_of_dead_broker(config(tmp_path)) or "").endswith("was over already")


def test_clusters_on_this_machine_know_the_default_of_the_setting() -> None:
    assert BROKER_KEYS[DETECTION].default == DEFAULT_DETECTION


@pytest.mark.parametrize("mode", ["session", "evidence"])
def test_a_watched_process_that_dies_is_noticed_and_the_next_start_waits_until_that_is_dealt_with(
    mode: str, tmp_path: Path, asked: list[Any]
) -> None:
    heard: list[str] = []
    properties = {"zookeeper.connect": CONNECT, DETECTION: mode}
    broker = BrokerProcess(7, tmp_path, properties, [sys.executable, "-c", "import signal; signal.pause()"])
    broker.death_watch = DeathWatch(heard.append)
    try:
        broker.start()
        leave_session(tmp_path / "broker-7")
        broker.kill()
        broker.start()
        assert len(heard) == len(asked) == (mode == "evidence")
        broker.death_watch.close()
        broker.kill()
        broker.death_watch.finish_all()
        assert len(asked) == (mode == "evidence"), "the owner of a cluster that stops kills what is left"
    finally:
        broker.close()


def test_a_death_is_noticed_where_the_system_has_no_descriptors_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(death_watch.os, "pidfd_open", raising=False)
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        process.kill()
        death_watch.wait_for_end(process)
        wait_until(lambda: process.poll() is not None, "the status is still there for its owner", 20)
