"""`kafkalite cluster up` and `cluster watch` as processes: what they tell while a broker is killed, and how soon all is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafkalite.local.broker_process import wait_until
from zk.servers.ensemble import end_with_parent

pytestmark = pytest.mark.system

KAFKALITE = (sys.executable, "-m", "kafkalite")
_tie_to_parent = end_with_parent(signal.SIGTERM)


def _begin() -> None:
    """In the new process. Whoever runs the tests in the background lets them ignore SIGINT, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if _tie_to_parent is not None:
        _tie_to_parent()


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*KAFKALITE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_begin,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(stream: Any) -> str:
    line = stream.readline()
    assert isinstance(line, str) and line, "the command ended"
    return line


def call(*arguments: str) -> str:
    return subprocess.run([*KAFKALITE, *arguments], check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture(scope="module")
def facts() -> Iterator[dict[str, Any]]:
    settings = ("-X", "zookeeper.session.timeout.ms=2000")
    with command("cluster", "up", "--restart-after", "4", "-o", "json", *settings) as process:
        found = json.loads(first_line(process.stdout))
        yield found
        process.terminate()
        begun_s = time.monotonic()
        assert process.wait(30) == 0, process.stderr.read() if process.stderr else ""
        assert time.monotonic() - begun_s < 10, "a clean stop does not run into its time limit"
    assert not any(runs(each["pid"]) for each in found["brokers"] + found["zookeepers"])


def test_a_watch_sees_a_leader_die_and_come_back(facts: dict[str, Any]) -> None:
    servers, zookeeper = facts["bootstrap_servers"], facts["zookeeper_connect"]
    call("topic", "create", "watched", "-p", "1", "-r", "3", "-b", servers)
    (topic,) = json.loads(call("topic", "describe", "watched", "-b", servers, "-o", "json"))
    leader = topic["partitions"][0]["leader"]
    (pid,) = [broker["pid"] for broker in facts["brokers"] if broker["id"] == leader]

    with command("cluster", "watch", "watched", "-o", "jsonl", "-z", zookeeper) as watch:
        assert "watching 1 partitions; brokers 101,102,103" in first_line(watch.stderr)
        os.kill(pid, signal.SIGKILL)
        seen: list[dict[str, Any]] = []

        def read_until(condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
            while True:
                seen.append(json.loads(first_line(watch.stdout)))
                if condition(seen[-1]):
                    return seen[-1]

        # When the controller dies with it, its successor notes first that there is no leader.
        election = read_until(lambda change: change["event"] == "election" and change["leader"] >= 0)
        assert election["previous_leader"] in (leader, -1) and election["leader"] != leader
        assert leader not in election["isr"] and election["leader_epoch"] > 0
        healed = read_until(lambda change: change["event"] == "isr" and len(change["isr"]) == 3)
        assert healed["leader"] == election["leader"] and healed["leader_epoch"] == election["leader_epoch"]
        events = [(change["event"], change.get("broker")) for change in seen]
        assert ("broker gone", leader) in events and ("broker came", leader) in events
        assert events.index(("broker gone", leader)) < events.index(("broker came", leader))
        assert [change["time"] for change in seen] == sorted(change["time"] for change in seen)
        watch.send_signal(signal.SIGINT)
        assert watch.wait(20) == 130


def test_every_broker_has_a_status_page(facts: dict[str, Any]) -> None:
    for broker in facts["brokers"]:
        with urllib.request.urlopen(f"{broker['http_url']}status.json", timeout=20) as answer:
            status = json.load(answer)
        assert status["broker"]["id"] == broker["id"] and list(status["brokers"]) == ["101", "102", "103"]


def test_describe_says_what_is_wrong_while_a_broker_is_away(facts: dict[str, Any]) -> None:
    servers = facts["bootstrap_servers"]
    call("topic", "create", "lonely", "--replica-assignment", "103", "-b", servers)
    described = json.loads(call("cluster", "info", "-b", servers, "-o", "json"))
    assert [broker["id"] for broker in described[0]["brokers"]] == [101, 102, 103]
    (topic,) = json.loads(call("topic", "describe", "lonely", "-b", servers, "-o", "json"))
    assert topic["partitions"][0]["state"] == "ok"

    def sound() -> bool:
        check = [*KAFKALITE, "topic", "describe", "--check", "-b", servers]
        return subprocess.run(check, capture_output=True, timeout=60, check=False).returncode == 0

    wait_until(sound, "all partitions in sync", 30)


def test_a_partition_moves_to_other_brokers_and_back_to_its_preferred_leader(facts: dict[str, Any]) -> None:
    servers = facts["bootstrap_servers"]
    call("topic", "create", "moved", "--replica-assignment", "101:102", "-b", servers)
    call("partition", "reassign", "execute", "moved-0=103,102", "--yes", "--wait", "-b", servers)
    assert call("partition", "reassign", "list", "-b", servers, "-o", "jsonl") == ""

    def state() -> dict[str, Any]:
        (topic,) = json.loads(call("topic", "describe", "moved", "-b", servers, "-o", "json"))
        found = topic["partitions"][0]
        assert isinstance(found, dict)
        return found

    wait_until(lambda: state()["replicas"] == [103, 102] and state()["state"] == "ok", "the move is known", 20)
    call("leader", "elect", "moved-0", "-b", servers)
    wait_until(lambda: state()["leader"] == 103, "the preferred leader leads", 20)
    call("partition", "add", "moved", "3", "-b", servers)
    (topic,) = json.loads(call("topic", "describe", "moved", "-b", servers, "-o", "json"))
    assert len(topic["partitions"]) == 3


def test_nothing_outlives_a_command_that_was_killed() -> None:
    with command("cluster", "up", "--brokers", "1", "-o", "json") as process:
        found = json.loads(first_line(process.stdout))
        process.kill()
        process.wait(20)
        pids = [each["pid"] for each in found["brokers"] + found["zookeepers"]]
        wait_until(lambda: not any(map(runs, pids)), "end of broker and ZooKeeper", 20)


def runs(pid: int) -> bool:
    """Is there such a process, and not only its entry that nobody has collected?"""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
