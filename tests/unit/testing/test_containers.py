"""What clusters in containers do without an engine."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from typing import Any

import docker.errors
import pytest

from kafkalite.config.environment import as_variables
from kafkalite.config.environment import broker_settings as settings_of_variables
from kafkalite.local.parallel import run_at_once
from kafkalite.testing.containers import neighbours
from kafkalite.testing.containers.network_cuts import NetworkCuts
from kafkalite.testing.containers.owner import OWNER_LABEL, is_orphan, owner_labels, remove_orphans
from kafkalite.testing.containers.server import engine_needed, freeze
from zk.servers.server_classes import MissingRequirementError


class Server:
    """A container by its state, its address and what it was told."""

    def __init__(self, address: str) -> None:
        self.network_address = address
        self.state = "running"
        self.silent: set[str] = set()

    @property
    def running(self) -> bool:
        return self.state in ("running", "paused")

    def silence(self, addresses: set[str]) -> None:
        self.silent |= addresses

    def hear(self, addresses: set[str]) -> None:
        self.silent -= addresses


@pytest.fixture
def servers() -> dict[Any, Any]:
    return {1: Server("10.0.0.1"), 2: Server("10.0.0.2"), 3: Server("10.0.0.3"), "zk1": Server("10.0.0.9")}


def silent(servers: dict[Any, Any]) -> dict[Any, set[str]]:
    return {name: {address[-1] for address in server.silent} for name, server in servers.items()}


def test_both_sides_of_a_partition_are_silent_to_each_other(servers: dict[Any, Any]) -> None:
    cuts = NetworkCuts()
    cuts.cut([1], [2, "zk1"], servers)
    cuts.apply(servers)
    assert silent(servers) == {1: {"2", "9"}, 2: {"1"}, 3: set(), "zk1": {"1"}}
    cuts.cut([3], [2], servers)
    cuts.apply(servers)
    assert silent(servers) == {1: {"2", "9"}, 2: {"1", "3"}, 3: {"2"}, "zk1": {"1"}}
    cuts.repair()
    cuts.apply(servers)
    assert silent(servers) == {1: set(), 2: set(), 3: set(), "zk1": set()}


def test_a_server_that_starts_again_with_another_address_is_cut_off_again(servers: dict[Any, Any]) -> None:
    cuts = NetworkCuts()
    cuts.cut([1], [2], servers)
    cuts.apply(servers)
    servers[1].state = "exited"
    cuts.apply(servers)
    servers[1] = Server("10.0.0.7")
    cuts.forget(1)
    cuts.apply(servers)
    assert silent(servers)[1] == {"2"}
    assert silent(servers)[2] == {"7"}


def test_a_paused_server_is_told_when_it_goes_on(servers: dict[Any, Any]) -> None:
    cuts = NetworkCuts()
    servers[1].state = "paused"
    cuts.cut([1], [2], servers)
    cuts.apply(servers)
    assert silent(servers) == {1: set(), 2: {"1"}, 3: set(), "zk1": set()}
    servers[1].state = "running"
    cuts.apply(servers)
    assert silent(servers)[1] == {"2"}


def test_settings_survive_the_way_through_variables() -> None:
    settings = {"broker.id": "1", "listener.name.a_b.ssl.key-x": "y", "log.retention.ms": "-1"}
    assert settings_of_variables(as_variables(settings)) == settings


def test_an_address_is_silenced_by_an_entry_for_nobody() -> None:
    request = neighbours.arp_request("10.1.2.3", "eth0")
    assert len(request) == 68  # sizeof(struct arpreq)
    assert request[:2] == struct.pack("=H", socket.AF_INET) and request[4:8] == bytes((10, 1, 2, 3))
    assert request[32:36] == struct.pack("=i", 0x06) and request[52:57] == b"eth0\0"


def test_this_process_is_no_orphan_and_a_process_that_ended_is() -> None:
    (label,) = owner_labels().values()
    assert not is_orphan(label)
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    assert is_orphan(f"{socket.gethostname()}/{ended.stdout.strip()}/1234")
    assert is_orphan(f"{socket.gethostname()}/{os.getpid()}/1"), "the id of an ended process that is used again"


@pytest.mark.parametrize("label", ["elsewhere/1/1", "", f"{socket.gethostname()}/x/1"])
def test_what_others_own_is_left_alone(label: str) -> None:
    assert not is_orphan(label)


def test_only_orphans_are_removed() -> None:
    removed = []

    class Thing:
        def __init__(self, owner: str) -> None:
            self.labels = {OWNER_LABEL: owner}
            self.attrs = {"Labels": self.labels}

        def remove(self, **options: bool) -> None:
            removed.append(self.labels[OWNER_LABEL])
            raise docker.errors.APIError("already in progress")

        def list(self, **filters: object) -> list[Thing]:
            return [Thing(own), Thing(gone)]

    (own,) = owner_labels().values()
    gone = f"{socket.gethostname()}/{os.getpid()}/1"
    client: Any = type("Client", (), dict.fromkeys(("containers", "networks", "volumes"), Thing("")))
    remove_orphans(client)
    assert removed == [gone] * 3


def test_an_engine_that_does_not_answer_is_told_with_a_remedy() -> None:
    with pytest.raises(MissingRequirementError, match="DOCKER_HOST"), engine_needed():
        raise docker.errors.DockerException("no socket")
    with pytest.raises(docker.errors.APIError), engine_needed():
        raise docker.errors.APIError("conflict")


def test_calls_are_made_at_once_and_their_results_are_in_order() -> None:
    both = threading.Barrier(2, timeout=10)

    def call(number: int) -> int:
        both.wait()
        return number

    assert run_at_once([lambda: call(1), lambda: call(2)]) == [1, 2]
    assert run_at_once([]) == []


def test_a_call_that_fails_does_not_keep_the_others_from_being_made() -> None:
    made: list[int] = []

    def fail() -> None:
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        run_at_once([fail, lambda: made.append(1), lambda: made.append(2)])
    assert sorted(made) == [1, 2]


def test_at_the_end_of_the_interpreter_calls_are_made_one_after_the_other() -> None:
    script = (
        "import atexit; from kafkalite.local.parallel import run_at_once;"
        "atexit.register(lambda: run_at_once([lambda: print('one'), lambda: print('two')]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["one", "two"], "")


class Busy:
    """A container whose processes cannot be frozen so many times."""

    def __init__(self, failures: int, reason: str = "OCI runtime pause failed: unable to freeze: unknown") -> None:
        self.failures, self.reason, self.attempts = failures, reason, 0

    def pause(self) -> None:
        self.attempts += 1
        if self.attempts <= self.failures:
            raise docker.errors.APIError("500 Server Error", explanation=self.reason)


def test_a_busy_container_is_frozen_at_the_next_attempt() -> None:
    busy: Any = Busy(2)
    freeze(busy)
    assert busy.attempts == 3
    hopeless: Any = Busy(100)
    with pytest.raises(docker.errors.APIError):
        freeze(hopeless)
    ended: Any = Busy(1, "Container is not running")
    with pytest.raises(docker.errors.APIError):
        freeze(ended)
    assert ended.attempts == 1
