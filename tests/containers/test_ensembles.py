"""ZooKeeper ensembles of one, three and five servers in containers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from kafkalite.local.broker_process import wait_until
from kafkalite.testing.containers import ZooKeeperEnsemble

RETURN_S = 90.0
"""A member may have another address when it is back, and the others learn it by failing to reach the old one."""


@contextmanager
def session(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=connect, timeout=10)
    client.start(30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def kill_and_return(ensemble: ZooKeeperEnsemble, victims: list[int]) -> None:
    """The others go on with what was written, also when the leader is a victim; then the victims come back."""
    with session(ensemble.connect) as client:
        client.create("/kept", b"x", makepath=True)
    ports = [member.port for member in ensemble.members]
    for number in victims:
        ensemble.kill(number)
    assert ensemble.wait_quorum(RETURN_S) not in victims
    with session(ensemble.connect) as client:
        assert client.get("/kept")[0] == b"x"
        client.create("/written-meanwhile", b"y")
    for number in victims:
        ensemble.restart(number)
    ensemble.wait_serving(RETURN_S)
    assert [member.port for member in ensemble.members] == ports
    for number in victims:
        with session(ensemble.member(number).address) as client:
            assert client.get("/written-meanwhile")[0] == b"y"


def test_one_server_keeps_data_and_port_over_a_kill(image: str) -> None:
    with ZooKeeperEnsemble(1, image=image) as ensemble:
        assert ensemble.wait_serving() == {1: "standalone"} and ensemble.leader() == 1
        with session(ensemble.connect) as client:
            client.create("/kept", b"x")
        ensemble.kill(1)
        assert ensemble.leader() is None
        ensemble.restart(1)
        ensemble.wait_serving()
        with session(ensemble.connect) as client:
            assert client.get("/kept")[0] == b"x"
        status, output = ensemble.member(1).exec(["zookeeper-shell", "localhost:2181", "ls", "/"])
        assert status == 0 and output.decode().splitlines()[-1] == "[kept, zookeeper]"
        assert ensemble.stop(1) == 143  # Java's way to tell that it obeyed SIGTERM


@pytest.fixture(scope="module")
def three(image: str) -> Iterator[ZooKeeperEnsemble]:
    """Three servers; a test leaves them all serving."""
    with ZooKeeperEnsemble(3, image=image) as ensemble:
        yield ensemble


def test_three_servers_survive_the_leader(three: ZooKeeperEnsemble) -> None:
    assert sorted(three.wait_serving().values()) == ["follower", "follower", "leader"]
    leader = three.wait_quorum(RETURN_S)
    kill_and_return(three, [leader])


def test_three_servers_without_a_majority_serve_nobody(three: ZooKeeperEnsemble) -> None:
    followers = [number for number, role in three.wait_serving(RETURN_S).items() if role == "follower"]
    for number in followers:
        three.pause(number)
    wait_until(lambda: three.leader() is None, "end of the quorum", RETURN_S)
    for number in followers:
        three.unpause(number)
    three.wait_serving(RETURN_S)


def test_five_servers_survive_two(image: str) -> None:
    with ZooKeeperEnsemble(5, image=image) as ensemble:
        leader = ensemble.wait_quorum(RETURN_S)
        follower = next(number for number, role in ensemble.wait_serving().items() if role == "follower")
        kill_and_return(ensemble, [leader, follower])


@pytest.mark.parametrize("size", [0, 2, 4])
def test_sizes_that_make_no_sense(size: int) -> None:
    with pytest.raises(ValueError, match=r"majority|serves nobody"):
        ZooKeeperEnsemble(size)
