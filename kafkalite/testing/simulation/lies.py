"""Lies of failure detectors: living brokers that are taken for dead. They concern clusters whose brokers end sessions on evidence only.

As with `faults.KINDS`, the acts are coroutines on the director's loop. The verdicts of `false_verdict` are carried out by brokers,
so their restraints hold; `end_at_write` and `end_at_claim`, which end sessions in the middle of a transaction, have the same one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.broker.failure_detection.detection_settings import DetectionMode
from kafkalite.broker.failure_detection.detector import Verdict
from kafkalite.broker.failure_detection.evidence import Evidence
from kafkalite.testing.simulation.absences import Absences, NotNow
from kafkalite.types import TopicPartition
from zk import paths
from zk.store import Create, Operation, Result, StoreError

if TYPE_CHECKING:
    from kafkalite.broker.failure_detection.failure_detection import FailureDetection
    from kafkalite.testing.simulation.cluster import SimulatedBroker, SimulatedCluster
    from kafkalite.testing.simulation.faults import Fault

BROKER, NOBODY = "broker", "nobody"
LIES: Final[dict[str, tuple[str, str]]] = {
    "false-verdict": (
        BROKER,
        "`enders` others carry out a verdict about it, after `wait_s`, so many `times`; with the `bounce` of 1 it is killed and started "
        "again before, with that of 2 meanwhile",
    ),
    "reject": (BROKER, "a firewall: connections of `witnesses` others to it break and are refused, with this `chance`"),
    "end-at-write": (BROKER, "its session is ended when its n-th `write` has been carried out, before the answer"),
    "end-at-claim": (NOBODY, "so is that of the controller, and of the next `times` brokers that claim its seat"),
}
"""Of each kind: what its targets are, and what it does."""

_BETWEEN_S: Final = 0.05
_LAST_ACCUSATION_S: Final = 1.0
"""After this nobody is accused any more of what is over."""


def find_detection(broker: SimulatedBroker) -> FailureDetection | None:
    """Return the failure detection of a broker that serves and ends sessions."""
    if broker.process is None or broker.app is None or broker.app.serving is None:
        return None
    detection = broker.app.serving.parts.failure_detection
    return detection if detection.mode is DetectionMode.EVIDENCE else None


def carry_out(ender: SimulatedBroker, verdict: Verdict) -> bool:
    """Let a broker carry out a verdict, wherever that comes from; False if it cannot."""
    detection = find_detection(ender)
    if detection is None or ender.process is None:
        return False
    ender.process.loop.call_soon(detection.carry_out, verdict, _hold)
    return True


async def _hold(verdict: Verdict) -> bool:
    """A lie is not looked at again."""
    return True


def find_only_in_sync(cluster: SimulatedCluster, broker_id: int, topics: Sequence[str]) -> TopicPartition | None:
    """Return a partition of these topics of which no other member of the ISR is registered."""
    for each in cluster.partitions():
        state = cluster.partition_state(each) if each.topic in topics else None
        if state is not None and broker_id in state.isr:
            others = [member for member in state.isr if member != broker_id]
            if not any(cluster.broker_epoch(member) is not None for member in others):
                return each
    return None


class Lies:
    """One coroutine for each of `LIES`, of its name with underscores. NotNow where it makes no sense.

    `unclean_topics` allow unclean elections. `restart` starts a broker again.
    """

    def __init__(
        self, cluster: SimulatedCluster, absences: Absences, restart: Callable[[SimulatedBroker], Awaitable[None]]
    ) -> None:
        self._cluster = cluster
        self._absences = absences
        self._restart = restart
        self.unclean_topics: tuple[str, ...] = ()

    def _find_broker(self, fault: Fault) -> SimulatedBroker:
        broker = next((each for each in self._cluster.brokers.values() if each.name == fault.targets[0]), None)
        if broker is None or broker.process is None or not broker.serves:
            raise NotNow(f"{fault.targets[0]} is down or starts")
        return broker

    def _find_others(self, victim: SimulatedBroker, count: int) -> list[SimulatedBroker]:
        others = [each for each in self._cluster.running() if each is not victim and find_detection(each) is not None]
        if not others:
            raise NotNow("nobody ends sessions")
        return others[:count]

    async def false_verdict(self, fault: Fault) -> None:
        self._absences.nobody_forgot()
        victim, bounce = self._find_broker(fault), int(fault.parameter("bounce"))
        evidence = Evidence(int(fault.parameter("evidence", 1.0)))
        for _ in range(int(fault.parameter("times", 1.0))):
            epoch = self._cluster.broker_epoch(victim.broker_id)
            if epoch is None:
                raise NotNow(f"{victim.name} is not registered")
            enders = self._find_others(victim, int(fault.parameter("enders", 1.0)))
            verdict = Verdict(victim.broker_id, epoch, evidence)
            if bounce == 1:
                await self._bounce(victim)
            await asyncio.sleep(fault.parameter("wait_s"))
            for ender in enders:
                carry_out(ender, verdict)
            if bounce == 2:
                await asyncio.sleep(fault.parameter("wait_s") / 20)
                await self._bounce(victim)
            await asyncio.sleep(fault.length_s)

    async def _bounce(self, victim: SimulatedBroker) -> None:
        if victim.process is not None and victim.serves:
            self._cluster.kill(victim.broker_id)
        await self._restart(victim)

    async def reject(self, fault: Fault) -> None:
        victim, chance = self._find_broker(fault), self._cluster.simulation.chance(f"rejects {fault}")
        network, odds = self._cluster.simulation.network, fault.parameter("chance", 1.0)
        witnesses = self._find_others(victim, int(fault.parameter("witnesses", 1.0)))
        for each in witnesses:
            network.reject(each.name, victim.name, odds)
        for _ in range(max(1, int(fault.length_s / _BETWEEN_S))):
            for each in witnesses:
                if chance.random() < odds:
                    network.reset(each.name, victim.name)
            await asyncio.sleep(_BETWEEN_S)
        for each in witnesses:
            network.reject(each.name, victim.name, 0.0)
        await asyncio.sleep(_LAST_ACCUSATION_S)

    async def end_at_write(self, fault: Fault) -> None:
        victim = self._find_broker(fault)
        assert victim.store is not None
        session_id, left = victim.store.session_id, int(fault.parameter("write", 1.0))

        def is_due(writer: int, operations: Sequence[Operation]) -> bool:
            nonlocal left
            if writer == session_id:
                left -= 1
            return writer == session_id and left == 0

        await self._end_when(is_due, fault.length_s)

    async def end_at_claim(self, fault: Fault) -> None:
        tree, left = self._cluster.zookeeper.tree, int(fault.parameter("times", 1.0))
        seat = tree.exists(paths.CONTROLLER)
        if seat is None:
            raise NotNow("there is no controller")

        def is_due(writer: int, operations: Sequence[Operation]) -> bool:
            nonlocal left
            is_claim = any(isinstance(each, Create) and each.path == paths.CONTROLLER for each in operations)
            left -= is_claim
            return is_claim and left >= 0

        self._end_session(seat.ephemeral_owner)
        await self._end_when(is_due, fault.length_s)

    async def _end_when(self, is_due: Callable[[int, Sequence[Operation]], bool], length_s: float) -> None:
        """End the session of whoever writes what `is_due`, before the answer is on its way, for a while."""
        zookeeper = self._cluster.zookeeper
        notice, is_over = zookeeper.on_transaction, False

        def end(session_id: int, operations: Sequence[Operation], results: list[Result]) -> None:
            if notice is not None:
                notice(session_id, operations, results)
            has_failed = any(isinstance(each, StoreError) for each in results)
            if not is_over and not has_failed and is_due(session_id, operations):
                self._end_session(session_id)

        zookeeper.on_transaction = end
        await asyncio.sleep(length_s)
        is_over = True

    def _end_session(self, session_id: int) -> None:
        """End the session of a broker as its peers would: not that of the only one in sync where a successor would lack records."""
        broker = self._cluster.find_session_owner(session_id)
        try:
            self._absences.nobody_forgot()
        except NotNow:
            return
        if broker is None or broker.store is None or broker.process is None or find_detection(broker) is None:
            return
        if find_only_in_sync(self._cluster, broker.broker_id, self.unclean_topics) is None:
            self._cluster.simulation.trace.add("fault", f"the session of {broker.name} is ended")
            self._cluster.zookeeper.end_session(session_id, broker.store.session_password)
