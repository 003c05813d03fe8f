"""Faults done to a simulated cluster: each begins at its moment, lasts, and ends; `heal` makes whole whatever is left.

Some faults take what the cluster never promised to keep: a replica that forgets what it had (`lose-power`, `bad-disk`) may do so while all
the others still have it. Such a fault is left out where a partition has not all its replicas in sync, and any fault whose target is not
there (a broker that is down already); `begun` says which faults there really were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from kafkalite.testing.simulation.absences import Absences, NotNow
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.fault_acts import ArmedFailpoints, FaultActs
from kafkalite.testing.simulation.faults import Fault
from kafkalite.testing.simulation.lies import LIES, Lies
from kafkalite.testing.simulation.mass_acts import MASS_FAULTS, MassActs
from kafkalite.types import TopicPartition
from zk import paths
from zk.znodes import ControllerSeat

Act: TypeAlias = Callable[[Fault], Awaitable[None]]


class Injection:
    """Injects faults into a simulated cluster, on the director's loop."""

    def __init__(self, cluster: SimulatedCluster, *, survives_a_loss: bool) -> None:
        """`survives_a_loss`: acknowledged records are on two replicas at least (min.insync.replicas), so one may forget them."""
        self.cluster = cluster
        self._absences = Absences(cluster, survives_a_loss=survives_a_loss)
        self.begun: list[Fault] = []
        self._failpoints = ArmedFailpoints()
        self._acts = FaultActs(cluster, self._absences, self._failpoints)
        self.lies = Lies(cluster, self._absences, self._acts.restart)
        self._mass_acts = MassActs(cluster, self._absences, self._acts.restart)

    async def inject(self, faults: Sequence[Fault]) -> None:
        """Inject all faults; returns when the last one has ended."""
        await asyncio.gather(*map(self._inject_one, faults))

    def close(self) -> None:
        """Disarm the failpoints that a simulation run left armed because it ended early."""
        self._failpoints.disarm_all()

    async def heal(self) -> None:
        """Let every broker run again, and nothing be slow, full or broken."""
        cluster = self.cluster
        if not cluster.zookeeper.has_quorum:
            cluster.zookeeper.regain_quorum()
        down = [each.broker_id for each in cluster.brokers.values() if each.process is None]
        if down:
            await cluster.start(*down)

    async def _inject_one(self, fault: Fault) -> None:
        await asyncio.sleep(fault.at_s)
        trace = self.cluster.simulation.trace
        try:
            targets = tuple(map(self._find_machine, fault.targets))
            if len(set(targets)) < len(targets):
                raise NotNow("twice the same machine")
            chosen = Fault(fault.at_s, fault.kind, targets, fault.length_s, fault.parameters)
            trace.add("fault", str(chosen).strip())
            with self._absences.taking_away(chosen):
                acts = self.lies if fault.kind in LIES else self._mass_acts if fault.kind in MASS_FAULTS else self._acts
                act: Act = getattr(acts, fault.kind.replace("-", "_"))
                await act(chosen)
        except NotNow as reason:
            trace.add("fault", f"{fault.kind} is left out: {reason}")
        else:
            self.begun.append(fault)
            trace.add("fault", f"{fault.kind} {' '.join(targets)} is over".replace("  ", " "))

    def _find_machine(self, target: str) -> str:
        """Return the machine that a target is, or whose role it names, at this moment. NotNow."""
        if target == "controller":
            data = self.cluster.read_znode(paths.CONTROLLER)
            if data is None:
                raise NotNow("there is no controller")
            return f"broker-{ControllerSeat.decode(data).broker_id}"
        role, _, name = target.partition(":")
        if not name:
            return target
        topic, _, partition = name.rpartition("-")
        state = self.cluster.partition_state(TopicPartition(topic, int(partition)))
        if state is None:
            raise NotNow(f"there is no {name}")
        if role == "leader" and state.leader >= 0:
            return f"broker-{state.leader}"
        followers = sorted(each for each in state.isr if each != state.leader)
        if role == "follower" and followers:
            return f"broker-{followers[0]}"
        raise NotNow(f"{name} has no {role}")
