"""A broker that starts over the log directories of a killed one ends the session that this one left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkalite.broker.failure_detection.evidence import Evidence
from kafkalite.broker.failure_detection.failure_detection import Outcome
from kafkalite.storage.session_file import FILE_NAME
from kafkalite.testing.simulation.cluster import LOG_DIR, SimulatedCluster
from kafkalite.testing.simulation.processes import Simulation
from zk.memory.memory_store import MemoryStore
from zk.store import StoreError

_FILE = f"{LOG_DIR}/{FILE_NAME}"
_SESSION_TIMEOUT_S = 6.0


def restart_s(
    mode: str,
    fault: Callable[[SimulatedCluster], object] = lambda cluster: None,
    cause: str = "kill",
    counted: list[Any] | None = None,
) -> float:
    """Kill a broker, apply the fault to what it left behind, and return how long the next start takes, in virtual seconds."""
    simulation = Simulation(1)
    cluster = SimulatedCluster(simulation, 1, {"kafkalite.failover.detection": mode})
    took_s = 0.0
    found = [] if counted is None else counted

    async def scenario() -> None:
        nonlocal took_s
        await cluster.start()
        broker = cluster.brokers[1]
        assert broker.disk.exists(_FILE) == (mode != "session")
        if cause == "power":
            broker.disk.sync(LOG_DIR)
            cluster.lose_power(1)
        else:
            cluster.kill(1)
        fault(cluster)
        before_s = simulation.time.now_s
        await cluster.start()
        took_s = simulation.time.now_s - before_s
        assert broker.app is not None and broker.app.serving is not None
        detection = broker.app.serving.parts.failure_detection
        found.append((detection.verdicts[Evidence.CERTAIN], dict(detection.outcomes)))
        await cluster.stop()
        assert not broker.disk.exists(_FILE), "a clean stop leaves none"

    simulation.run(scenario())
    return took_s


def test_a_start_over_a_killed_broker_does_not_wait_for_its_session() -> None:
    counted: list[Any] = []
    assert restart_s("evidence", counted=counted) < 1
    assert counted == [(1, {Outcome.ENDED: 1})]


def test_what_would_have_been_done_is_counted() -> None:
    counted: list[Any] = []
    restart_s("observe", counted=counted)
    assert counted == [(1, {Outcome.RIGHT: 1})]


@pytest.mark.parametrize("mode", ["session", "observe"])
def test_without_evidence_a_start_waits_as_before(mode: str) -> None:
    assert restart_s(mode) > _SESSION_TIMEOUT_S / 2


def test_what_was_written_before_the_machine_started_again_is_no_evidence() -> None:
    assert restart_s("evidence", cause="power") > _SESSION_TIMEOUT_S / 2


def changed(*change: tuple[bytes, bytes]) -> Callable[[SimulatedCluster], None]:
    """Return the fault that replaces some bytes of the session file."""

    def apply(cluster: SimulatedCluster) -> None:
        disk = cluster.brokers[1].disk
        content = disk.read(_FILE)
        for old, new in change:
            assert old in content
            content = content.replace(old, new)
        disk.replace(_FILE, content)

    return apply


@pytest.mark.parametrize(
    "fault",
    [
        changed((b"broker.id=1", b"broker.id=2")),
        changed((b"connect=memory", b"connect=another")),
        changed((b"password=", b"password=00")),
        changed((b"version=1", b"version=9")),
        changed((b"lock=", b"lock=9")),
    ],
    ids=["another broker", "another ensemble", "wrong password", "malformed", "copied"],
)
def test_a_file_that_proves_nothing_leaves_the_start_waiting(fault: Callable[[SimulatedCluster], None]) -> None:
    assert restart_s("evidence", fault) > _SESSION_TIMEOUT_S / 2


def test_a_file_of_another_mode_is_removed() -> None:
    simulation = Simulation(1)
    cluster = SimulatedCluster(simulation, 1)

    async def scenario() -> None:
        disk = cluster.brokers[1].disk
        disk.make_directory(LOG_DIR)
        disk.replace(_FILE, b"anything")
        await cluster.start()
        assert not disk.exists(_FILE)
        await cluster.stop()

    simulation.run(scenario())


def test_each_new_session_is_written_before_the_broker_registers_under_it() -> None:
    simulation = Simulation(1)
    cluster = SimulatedCluster(simulation, 1, {"kafkalite.failover.detection": "evidence"})

    async def scenario() -> None:
        await cluster.start()
        broker = cluster.brokers[1]
        first_epoch = cluster.broker_epoch(1)
        assert broker.process is not None and broker.store is not None
        broker.process.loop.call_soon(broker.store.expire_session)
        await cluster.until(lambda: cluster.broker_epoch(1) not in (None, first_epoch), "the broker registers again")
        assert f"session.id=0x{broker.store.session_id:x}\n".encode() in broker.disk.read(_FILE)
        await cluster.stop()

    simulation.run(scenario())


def requests_of_a_start(ends_at: int) -> int:
    """Return how many requests a start over a killed broker sent; its own session ends when the one of that number is sent."""
    simulation = Simulation(1)
    cluster = SimulatedCluster(simulation, 1, {"kafkalite.failover.detection": "evidence"})
    broker = cluster.brokers[1]
    requests = 0

    def count_requests(carry_out: Any) -> Any:
        def request(path: str, what: Any) -> Any:
            nonlocal requests
            requests += 1
            if requests == ends_at and broker.store is not None and broker.process is not None:
                broker.process.loop.call_soon(broker.store.expire_session)
            return carry_out(path, what)

        return request

    async def scenario() -> None:
        await cluster.start()
        cluster.kill(1)
        process = broker.start_process()
        assert broker.store is not None
        broker.store._request = count_requests(broker.store._request)  # type: ignore[method-assign]
        begun_s = simulation.time.now_s
        await process.run(broker.serve())
        assert simulation.time.now_s - begun_s < _SESSION_TIMEOUT_S / 2, "the predecessor's session was waited for"
        assert f"session.id=0x{broker.store.session_id:x}\n".encode() in broker.disk.read(_FILE)
        await cluster.stop()

    simulation.run(scenario())
    return requests


@pytest.mark.parametrize("part", range(4))
def test_the_own_session_may_end_at_any_moment_of_a_start_over_a_killed_broker(part: int) -> None:
    for ends_at in range(1 + part, requests_of_a_start(0), 4):
        requests_of_a_start(ends_at)


def test_a_start_waits_for_the_session_when_zookeeper_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def end_session(*_: object) -> None:
        raise StoreError("/", "no answer")

    monkeypatch.setattr(MemoryStore, "end_session", end_session)
    counted: list[Any] = []
    assert restart_s("evidence", counted=counted) > _SESSION_TIMEOUT_S / 2
    assert counted == [(1, {Outcome.FAILED: 1})]
