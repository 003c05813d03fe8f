"""What is read of a cluster around a step: processor time, memory, bytes sent, ZooKeeper's counts, and what brokers tell clients."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from kafkalite.local.broker_process import BrokerProcess
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts, session_password
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.bench.scale_figures import (
    Costs,
    Flow,
    View,
    bytes_sent,
    difference,
    sample_of,
    sent_between,
    view_of,
    zookeeper_counts,
)
from tests.processor_time import worked_s
from zk import paths
from zk.connect_string import split_connect
from zk.security.store_security import PLAINTEXT
from zk.servers.ensemble import four_letter_word
from zk.session_ending import end_session

_TIMEOUT_S: Final = 60.0
_LONG_TIMEOUT_S: Final = 600.0
_LARGEST_RESPONSE_BYTES: Final = 1 << 30
_PAUSE_S: Final = 0.02
_PAUSE_PER_LOOK: Final = 5
"""A look at thousands of partitions costs the broker as much as what is measured, so most of the time nobody looks."""
_LONGEST_PAUSE_S: Final = 0.2
"""A broker may answer late that had nothing to do: it waits for the successor of a leader that died."""

_PORTION: Final = 20
"""Topics of one look at all: few enough that a look that came too early delays the next one by little."""


class Snapshot(NamedTuple):
    """The counters of a cluster at one moment."""

    at_s: float
    processor_s: Mapping[int, float]
    """By process id, because a broker that was started again counts from 0."""

    sent: Mapping[Flow, int]
    zookeeper: Mapping[str, int]


class Meter:
    """Measures what happens between its making and `read`: the cost of a step on a cluster."""

    def __init__(self, cluster: LocalCluster, facts: ClusterFacts, other_ports: Iterable[int] = ()) -> None:
        """`other_ports` belong to brokers that are not among the cluster's processes."""
        self._cluster, self._facts, self._other_ports = cluster, facts, tuple(other_ports)
        self._before = self._take()

    def read(self, stages: Mapping[str, float] | None = None, seconds: float | None = None) -> Costs:
        """Return the costs until now; `seconds` if the step was shorter than that."""
        now, before = self._take(), self._before
        controller = self._facts.controller()
        running = {each.id: each.pid for each in _running(self._cluster)}
        ports = {each.id: each.port for each in _running(self._cluster)}
        return Costs(
            seconds=now.at_s - before.at_s if seconds is None else seconds,
            stages=stages or {},
            processor_s={
                broker: now.processor_s[pid] - before.processor_s.get(pid, 0.0) for broker, pid in running.items()
            },
            controller=controller,
            sent_bytes=sent_between(before.sent, now.sent, running.get(controller, -1), ports.get(controller, -1)),
            zookeeper=difference(before.zookeeper, now.zookeeper),
        )

    def _take(self) -> Snapshot:
        at_s = time.monotonic()
        processor_s = {each.pid: worked_s(each.pid) for each in _running(self._cluster)}
        ports = [*(each.port for each in self._cluster.brokers.values()), *self._other_ports]
        sent = bytes_sent(_sockets(), ports)
        return Snapshot(at_s, processor_s, sent, asyncio.run(_count(self._cluster.zookeeper_connect)))


def resident_mb(cluster: LocalCluster) -> dict[int, float]:
    """Return the memory of each running broker that is in RAM, in MB."""
    return {each.id: each.resident_bytes() / 1e6 for each in _running(cluster)}


def owner_of(facts: ClusterFacts, broker_id: int) -> int:
    """Return the session of a registered broker, for `end_owner` to end when it is dead. Raises RuntimeError where it has none."""
    registration = facts.client.exists(paths.broker(broker_id))
    if registration is None:
        raise RuntimeError(f"broker {broker_id} is not registered")
    return int(registration.ephemeralOwner)


def end_owner(cluster: LocalCluster, session_id: int) -> None:
    """End a session as a verdict does; nothing happens where the other brokers or the cluster were sooner. Raises StoreError."""
    end_session(cluster.zookeeper_connect, session_id, session_password(session_id), PLAINTEXT, _TIMEOUT_S)


def _running(cluster: LocalCluster) -> list[BrokerProcess]:
    return [each for each in cluster.brokers.values() if each.running]


def _sockets() -> str:
    return subprocess.run(["ss", "-tinpOH"], check=True, capture_output=True, text=True, timeout=_TIMEOUT_S).stdout


async def _count(connect: str) -> dict[str, int]:
    answers = []
    for server in split_connect(connect)[0].split(","):
        host, _, port = server.rpartition(":")
        words = [await four_letter_word(host, int(port), word, _TIMEOUT_S) or "" for word in ("mntr", "srvr")]
        answers.append((words[0], words[1]))
    return zookeeper_counts(answers)


# -- what brokers tell clients


Condition = Callable[[View], bool]
"""True if what a broker tells is what is waited for."""


class Idle(NamedTuple):
    """The idle topics of a cluster, by name: a few of them, which are cheap to ask for, and how many partitions each of all has."""

    few: Sequence[str]
    partitions: Mapping[str, int]


def idle_of(wanted: Mapping[str, Sequence[object]]) -> Idle:
    return Idle(sample_of(list(wanted)), {name: len(wanted[name]) for name in sorted(wanted)})


async def ask_view(broker: BrokerProcess, topics: Sequence[str], alive: Iterable[int]) -> View:
    """Return what the broker tells of these topics. Raises OSError, TimeoutError."""
    async with asyncio.timeout(_LONG_TIMEOUT_S):
        connection = await Connection.open(
            broker.host,
            broker.port,
            client_id="bench",
            timeout_s=_TIMEOUT_S,
            max_response_bytes=_LARGEST_RESPONSE_BYTES,
        )
        with closing(connection):
            await connection.negotiate(_TIMEOUT_S)
            m = messages.metadata_request
            wanted = [m.MetadataRequestTopic(name=name) for name in topics]
            request = m.MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
            response = await connection.request(request, connection.version_of(ApiKey.METADATA), _LONG_TIMEOUT_S)
    return view_of(
        (
            (each.leader_id, each.replica_nodes, each.isr_nodes)
            for topic in response.topics
            if not topic.error_code
            for each in topic.partitions
        ),
        alive,
    )


def wait_for_views(
    brokers: Iterable[BrokerProcess],
    idle: Idle,
    condition: Condition,
    alive: Iterable[int],
    timeout_s: float,
    *,
    of_few: bool = False,
) -> float:
    """Wait until each broker tells what is waited for, first of a few topics and then of all; return when, by time.monotonic.

    To ask for all is expensive, so it is done once the few are as they should be, and not at all where it is told `of_few` only;
    in portions, each of which is asked for again only until it is as it should be, because what is waited for stays.
    """
    return asyncio.run(_wait_for_views(list(brokers), idle, condition, frozenset(alive), timeout_s, of_few))


async def _wait_for_views(
    brokers: Sequence[BrokerProcess],
    idle: Idle,
    condition: Condition,
    alive: frozenset[int],
    timeout_s: float,
    of_few: bool,
) -> float:
    names = list(idle.partitions)
    portions = [names[start : start + _PORTION] for start in range(0, len(names), _PORTION)]
    sizes = [{name: idle.partitions[name] for name in some} for some in (idle.few, *(() if of_few else portions))]
    # All brokers at once: how long one takes to tell of everything is no part of what is waited for at the others.
    asked = [_wait_for_view(broker, sizes, condition, alive, timeout_s) for broker in brokers]
    return max(await asyncio.gather(*asked))


async def _wait_for_view(
    broker: BrokerProcess,
    portions: Sequence[Mapping[str, int]],
    condition: Condition,
    alive: frozenset[int],
    timeout_s: float,
) -> float:
    """Ask a broker for each portion, numbers of partitions by topic, until it tells what is waited for; return when it had told.

    That is when it answered about the first portion, or about a later one that had been wrong before: a busy broker answers late, and with
    what is so by then.
    """
    told_s, view = 0.0, View()
    try:
        async with asyncio.timeout(timeout_s):
            for portion in portions:
                was_wrong = not told_s
                while True:
                    asked_s = time.monotonic()
                    view = await _ask_again(broker, list(portion), alive)
                    answered_s = time.monotonic()
                    if view.partitions == sum(portion.values()) and condition(view):
                        break
                    was_wrong = True
                    await asyncio.sleep(min(max(_PAUSE_S, _PAUSE_PER_LOOK * (answered_s - asked_s)), _LONGEST_PAUSE_S))
                told_s = answered_s if was_wrong else told_s
    except TimeoutError:
        raise TimeoutError(f"what broker {broker.id} tells: not within {timeout_s:g} s, but {view}") from None
    return told_s


async def _ask_again(broker: BrokerProcess, topics: Sequence[str], alive: frozenset[int]) -> View:
    """Return what a broker tells; nothing where it cannot be reached."""
    try:
        return await ask_view(broker, topics, alive)
    except OSError:
        broker.check_running()
        return View()
