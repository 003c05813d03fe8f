"""Clusters of three brokers in which one is killed again and again, and what each time cost.

Everything has factor 3 and min.insync.replicas 2. A written topic is created for each round: its first partition has the leader that
the round needs, and each other broker leads one that gets a single record, so that the client is connected to all brokers, as producers of
topics with more partitions are. The others of the asked number are one idle topic, whose leaders are spread evenly before each round.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.types import NO_BROKER
from tests.bench.failover_clients import Moment, SteadyWriter, new_producer
from tests.bench.failover_figures import Moments, Roles, Victim, choose_roles, first_acknowledgement
from tests.bench.idle_topics import (
    ROUND_TIMEOUT_S,
    SET_UP_TIMEOUT_S,
    PatientAdmin,
    Shape,
    assignments,
    create_idle,
    spread_leaders,
)
from tests.system import network
from zk import paths
from zk.znodes.controller import ControllerSeat
from zk.znodes.topics import PartitionState

PROPERTIES: Final = {
    "zookeeper.session.timeout.ms": "18000",  # the default, which clusters for tests shorten
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",  # the bench moves leaders itself, between rounds
}
BROKERS: Final = 3
WARM_RECORDS: Final = 20
FIRST_PATIENCE_S: Final = 0.25
"""With a client that connects after an election."""


@contextmanager
def failover_cluster(
    command: Sequence[str],
    properties: Mapping[str, str],
    zookeepers: int,
    *,
    logs: Path,
    brokers: int = BROKERS,
    directory: Path | None = None,
) -> Iterator[LocalCluster]:
    """Brokers with the settings that users have; what they logged is copied to `logs` when the block raises."""
    with LocalCluster(
        directory=directory,
        brokers=brokers,
        zookeepers=zookeepers,
        properties=PROPERTIES | dict(properties),
        command=command,
        start_timeout_s=ROUND_TIMEOUT_S,
    ) as cluster:
        try:
            yield cluster
        except BaseException:
            logs.mkdir(parents=True, exist_ok=True)
            for path in cluster.directory.glob("*.log"):
                shutil.copy(path, logs)
            raise


class Failovers:
    """Rounds on one cluster, which has `partitions` partitions while a round lasts. With `end_sessions` no session is waited for."""

    def __init__(
        self, cluster: LocalCluster, facts: ClusterFacts, partitions: int, client: str, *, end_sessions: bool = False
    ) -> None:
        self._cluster, self._facts, self._idle, self._client = cluster, facts, max(0, partitions - BROKERS), client
        self._end_sessions = end_sessions
        self._admin = PatientAdmin(cluster.bootstrap_servers)
        self._rounds = 0
        self._lost = ExitStack()
        """The rules of iptables by which packets of a vanished host are lost."""

    def create_idle(self) -> float:
        """Create the idle topic; return the seconds until its partitions are led and replicated."""
        began_s = time.monotonic()
        wait_until(lambda: self._facts.controller() != NO_BROKER, "a controller", ROUND_TIMEOUT_S)
        self._admin.wait_for_controller()
        create_idle(self._admin, assignments(Shape(self._idle), self._cluster.broker_ids))
        return time.monotonic() - began_s

    def run_round(self, victim: Victim) -> tuple[Moments, list[str]]:
        """Kill a broker, and return what happened when, with the errors that the client reported; everything is whole again then."""
        self._rounds += 1
        topic = f"written-{self._rounds}"
        roles = choose_roles(victim, self._facts.controller(), self._cluster.broker_ids)
        self._create_written(topic, roles.leader)
        epoch = self._facts.broker_epoch(roles.victim)
        with SteadyWriter(self._client, self._cluster.bootstrap_servers, topic, range(1, BROKERS)) as writer:
            wait_until(lambda: len(writer.records) >= WARM_RECORDS, "a client that writes", ROUND_TIMEOUT_S)
            if choose_roles(victim, self._facts.controller(), self._cluster.broker_ids) != roles:
                raise RuntimeError("the controller moved while nobody was killed")
            moments = self._strike(victim, roles, topic, writer)
        self._restore(roles.victim, epoch, topic)
        return moments, writer.problems

    def _strike(self, victim: Victim, roles: Roles, topic: str, writer: SteadyWriter) -> Moments:
        with ExitStack() as watches:

            def watch(path: str, holds: Callable[[bytes | None], bool], what: str) -> Moment:
                moment = Moment(self._facts.client, path, holds, what)
                watches.callback(moment.cancel)
                return moment

            ended = watch(paths.broker(roles.victim), lambda found: found is None, "the end of the session")
            seat = watch(paths.CONTROLLER, partial(is_taken, roles.victim), "a new controller")
            elected = watch(paths.partition_state(topic, 0), partial(is_served_without, roles.victim), "an election")
            if victim == "vanish":
                struck_ns, exited_ns = self._cut_off(roles.victim), None
            else:
                struck_ns, exited_ns = kill(self._cluster, roles.victim)
            if self._end_sessions:
                self._facts.expire_session(roles.victim)
            ended_ns, elected_ns = ended.wait(ROUND_TIMEOUT_S), elected.wait(ROUND_TIMEOUT_S)
            newcomer_ns = self._write_as_newcomer(roles.victim, topic, watches) if victim == "vanish" else None
            find = partial(first_acknowledgement, writer.records, struck_ns, ended_ns)
            wait_until(lambda: find() is not None, "an acknowledgement", ROUND_TIMEOUT_S)
            return Moments(
                struck_ns,
                exited_ns,
                ended_ns,
                seat.wait(ROUND_TIMEOUT_S) if victim == "controller" else None,
                elected_ns,
                find() or 0,
                newcomer_ns,
            )

    def _cut_off(self, broker_id: int) -> int:
        """Let a broker's host vanish: no packet to or from its process arrives, and it opens no other connections."""
        struck_ns = time.monotonic_ns()
        self._cluster.pause(broker_id)
        self._lost.enter_context(network.packets_lost(self._cluster.broker(broker_id).pid))
        return struck_ns

    def _write_as_newcomer(self, victim: int, topic: str, closing: ExitStack) -> int:
        """Return when a client that connects now has its first record acknowledged.

        One that was still sent to the victim waits for its own timeouts, so another one tries after a while, each for twice as long.
        """
        servers = ",".join(broker.address for broker in self._cluster.brokers.values() if broker.id != victim)
        patience_s = FIRST_PATIENCE_S
        while patience_s < ROUND_TIMEOUT_S:
            producer = new_producer(self._client, servers, topic)
            closing.callback(producer.close)
            until_s = time.monotonic() + patience_s
            at_ns = producer.send(lambda: time.monotonic() > until_s)  # noqa: B023 -- not kept
            if at_ns is not None:
                return at_ns
            patience_s *= 2
        raise TimeoutError(f"new clients: nothing acknowledged within {ROUND_TIMEOUT_S:g} s")

    def _restore(self, victim: int, epoch: int, topic: str) -> None:
        """Start the victim again, delete the written topic, and give every idle partition back to its preferred leader."""
        self._cluster.kill(victim)  # one that vanished runs still
        self._lost.close()
        self._cluster.start_broker(victim)
        wait_until(
            lambda: self._facts.broker_epoch(victim) not in (0, epoch), f"broker {victim} again", ROUND_TIMEOUT_S
        )
        self._admin.delete(topic)
        wait_until(
            lambda: self._facts.client.exists(paths.topic(topic)) is None, f"the end of {topic}", ROUND_TIMEOUT_S
        )
        wait_until(
            partial(spread_leaders, self._admin, self._idle),
            "idle partitions in sync, led by their preferred leaders",
            SET_UP_TIMEOUT_S,
        )

    def _create_written(self, topic: str, leader: int) -> None:
        others = [other for other in self._cluster.broker_ids if other != leader]
        ids = [leader, *others]
        wanted = NewTopic(topic, BROKERS, replica_assignment=[[*ids[place:], *ids[:place]] for place in range(BROKERS)])
        self._admin.create(wanted)

        def is_ready() -> bool:
            return self._facts.fully_replicated(topic) and self._facts.state(topic, 0).leader == leader

        wait_until(is_ready, f"replicas of {topic}", ROUND_TIMEOUT_S)


def kill(cluster: LocalCluster, broker_id: int) -> tuple[int, int]:
    """Send SIGKILL, and return when, and when the process had ended. Raises TimeoutError."""
    process = os.pidfd_open(cluster.broker(broker_id).pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        struck_ns = time.monotonic_ns()
        if not select.select([process], [], [], ROUND_TIMEOUT_S)[0]:
            raise TimeoutError(f"broker {broker_id} has not ended")
        exited_ns = time.monotonic_ns()
    finally:
        os.close(process)
    cluster.kill(broker_id)  # takes its status
    return struck_ns, exited_ns


def is_taken(former: int, seat: bytes | None) -> bool:
    """True if the znode of the controller names another broker."""
    return seat is not None and ControllerSeat.decode(seat).broker_id != former


def is_served_without(victim: int, state: bytes | None) -> bool:
    """True if a partition's state has a leader, and neither leader nor ISR is the victim."""
    if state is None:
        return False
    known = PartitionState.decode(state)
    return known.leader not in (victim, NO_BROKER) and victim not in known.isr
