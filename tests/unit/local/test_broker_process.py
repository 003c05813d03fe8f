"""Broker processes: started, awaited, ended; and what is said when they die. With a stand-in, because only the process matters."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafkalite.config.properties import read_properties
from kafkalite.local import broker_process
from kafkalite.local.broker_process import BrokerDied, BrokerProcess
from kafkalite.local.cluster import LocalCluster

OBEDIENT = """\
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("[KafkaServer id=7] started", flush=True)
signal.pause()
"""
STUBBORN = OBEDIENT.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")
SLOW = """\
import signal, sys
left = 6
def go_on(*_):
    global left
    if left == 0:
        sys.exit(0)
    print(f"[KafkaServer id=7] stopping: {left} leaders to hand over", flush=True)
    left -= 1
signal.signal(signal.SIGTERM, go_on)
signal.signal(signal.SIGUSR1, go_on)
print("[KafkaServer id=7] started", flush=True)
while True:
    signal.pause()
"""
DYING = "import sys; print('no such directory'); sys.exit(3)"
SILENT = "import signal; signal.pause()"

Maker = Callable[..., BrokerProcess]


def command(program: str) -> list[str]:
    return [sys.executable, "-c", program]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Maker]:
    made: list[BrokerProcess] = []

    def broker(program: str, port: int | None = None) -> BrokerProcess:
        made.append(BrokerProcess(7, tmp_path, {"log.retention.hours": "1"}, command(program), port))
        made[-1].start()
        return made[-1]

    yield broker
    for each in made:
        each.close()


def test_a_broker_starts_and_stops(make: Maker) -> None:
    broker = make(OBEDIENT)
    broker.wait_started(20)
    assert broker.running and broker.exit_status is None
    assert broker.stop(20) == 0
    assert not broker.running and broker.exit_status == 0
    with pytest.raises(BrokerDied):
        broker.check_running()
    broker.start()
    broker.wait_started(20)  # the line of the first start does not count
    assert broker.running


def test_its_settings_are_in_its_file(make: Maker) -> None:
    broker = make(OBEDIENT)
    lines = broker.properties_path.read_text().splitlines()
    assert f"listeners=PLAINTEXT://127.0.0.1:{broker.port}" in lines and "log.retention.hours=1" in lines
    assert broker.log_dir == broker.properties_path.parent / "broker-7"


def test_a_given_port_is_used(make: Maker) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        assert make(OBEDIENT, port).address == f"127.0.0.1:{port}"


def test_a_death_is_told_with_the_last_lines(make: Maker) -> None:
    with pytest.raises(BrokerDied, match=r"broker 7 ended with status 3 before it had started:\nno such directory"):
        make(DYING).wait_started(20)


def test_a_broker_that_does_not_get_ready_is_told(make: Maker) -> None:
    with pytest.raises(TimeoutError, match="start of broker 7: not within"):
        make(SILENT).wait_started(0.1)


class Clock:
    """Stands for the module's `time`: each look at it, a tenth of the patience with a broker has passed."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.sleep = time.sleep

    def monotonic(self) -> float:
        self.now_s += broker_process.STUCK_AFTER_S / 10
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(broker_process, "time", clock)
    return clock


def test_a_broker_that_stopped_slowly_was_killed_before_it_had_handed_over(make: Maker, clock: Clock) -> None:
    """It takes far longer than what is allowed to a broker that makes no progress."""
    broker, told = make(SLOW), list[str]()
    broker.wait_started(1e6)

    def tell(line: str) -> None:
        told.append(line)
        clock.now_s += 0.5 * broker_process.STUCK_AFTER_S
        os.kill(broker.pid, signal.SIGUSR1)

    began_s = clock.now_s
    assert broker.stop(tell=tell) == 0
    assert clock.now_s - began_s > 3 * broker_process.STUCK_AFTER_S
    assert told == [f"broker 7: {left} leaders to hand over" for left in range(6, 0, -1)]


def test_a_broker_that_is_stuck_is_killed_and_said_to_be(tmp_path: Path, clock: Clock) -> None:
    told: list[str] = []
    cluster = LocalCluster(
        brokers=0, zookeeper_connect="127.0.0.1:1", directory=tmp_path, command=command(SLOW), start_timeout_s=1e6
    )
    cluster.start()
    broker = cluster.add_broker(7)
    assert cluster.close(told.append) == {7: None}
    assert broker.exit_status == -signal.SIGKILL
    assert told == [
        "broker 7: 6 leaders to hand over",
        "broker 7: its stop made no progress for 40 s (6 leaders to hand over); it is killed",
    ]


def test_a_stubborn_broker_is_told_and_killed(make: Maker) -> None:
    broker = make(STUBBORN)
    broker.wait_started(20)
    with pytest.raises(TimeoutError, match=r"broker 7: its stop made no progress for 0\.1 s\n"):
        broker.stop(0.1)
    broker.kill()
    assert broker.exit_status == -signal.SIGKILL


def test_a_cluster_whose_broker_dies_leaves_nothing_behind(tmp_path: Path) -> None:
    cluster = LocalCluster(brokers=2, zookeeper_connect="127.0.0.1:1", directory=tmp_path, command=command(DYING))
    with pytest.raises(BrokerDied, match="no such directory"):
        cluster.start()
    assert not any(broker.running for broker in cluster.brokers.values())


def test_a_cluster_that_does_not_get_ready_says_what_the_brokers_logged(tmp_path: Path) -> None:
    cluster = LocalCluster(
        brokers=1,
        first_broker_id=7,
        zookeeper_connect="127.0.0.1:1",
        directory=tmp_path,
        command=command(OBEDIENT),
        start_timeout_s=1.0,
    )
    with pytest.raises(TimeoutError, match=r"not ready after 1 s\nbroker 7 at .*:\n.*KafkaServer id=7"):
        cluster.start()
    assert not cluster.broker(7).running


def test_closing_tells_of_brokers_that_did_not_stop_cleanly(tmp_path: Path) -> None:
    cluster = LocalCluster(brokers=0, zookeeper_connect="127.0.0.1:1", directory=tmp_path, command=command(OBEDIENT))
    cluster.start()
    cluster.add_broker(7)
    assert cluster.close() == {}
    failing = OBEDIENT.replace("sys.exit(0)", "sys.exit(4)")
    cluster = LocalCluster(brokers=0, zookeeper_connect="127.0.0.1:1", directory=tmp_path, command=command(failing))
    cluster.start()
    cluster.add_broker(7)
    assert cluster.close() == {7: 4}


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="odd number"):
        LocalCluster(zookeepers=2)
    with pytest.raises(ValueError, match="no place for ZooKeeper"):
        LocalCluster(brokers=101, base_port=9092)


def test_status_pages_have_ports_of_their_own_when_they_are_wanted(tmp_path: Path) -> None:
    options = {"brokers": 0, "zookeeper_connect": "127.0.0.1:1", "command": command(OBEDIENT)}
    for base_port, expected in ((25000, "http://127.0.0.1:25206/"), (None, None)):
        with LocalCluster(**options, first_broker_id=1, directory=tmp_path, base_port=base_port, http=True) as cluster:  # type: ignore[arg-type]
            broker = cluster.add_broker(7)
            assert broker.http_url == expected or expected is None
            listener = broker.properties["kafkalite.http.listener"]
            assert broker.http_url == f"http://{listener}/" and str(broker.port) not in listener
    with LocalCluster(**options, directory=tmp_path) as cluster:  # type: ignore[arg-type]
        broker = cluster.add_broker(7)
        assert broker.http_url is None and "kafkalite.http.listener" not in broker.properties


@pytest.mark.parametrize(("look_s", "pause_s"), [(0.0, 0.02), (0.05, 0.15), (9.0, 0.25)])
def test_what_takes_long_to_find_out_is_asked_for_less_often(
    monkeypatch: pytest.MonkeyPatch, look_s: float, pause_s: float
) -> None:
    now_s, pauses, looks = 0.0, [], 0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        pauses.append(seconds)
        now_s += seconds

    def condition() -> bool:
        nonlocal now_s, looks
        now_s, looks = now_s + look_s, looks + 1
        return looks == 3

    monkeypatch.setattr(broker_process, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    broker_process.wait_until(condition, "the third look", 100)
    assert pauses == pytest.approx([pause_s, pause_s])


@pytest.mark.parametrize("name", ["Jürgen", "back\\slash", " #!:=%41${x}", "line\nend", "日本😀"])
def test_the_settings_of_a_broker_name_its_directory(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    broker = BrokerProcess(7, folder, {}, command(OBEDIENT))
    try:
        broker.start()
        broker.wait_started()
        assert read_properties(broker.properties_path)["log.dirs"] == str(folder / "broker-7")
    finally:
        broker.close()


@pytest.mark.parametrize(("name", "reason"), [("a,b", "separates directories by commas"), ("\udcff", "is not UTF-8")])
def test_a_directory_that_no_setting_can_name_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        BrokerProcess(7, tmp_path / name, {})
    with pytest.raises(ValueError, match=reason):
        LocalCluster(brokers=1, directory=tmp_path / name)
