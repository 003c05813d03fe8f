"""Faults of large clusters, which take many brokers at once or one after the other. Brokers of a rack are named one by one, as targets.

As with `faults.KINDS`, the acts are coroutines on the director's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.testing.simulation.absences import Absences, NotNow
from kafkalite.testing.simulation.faults import BROKERS, NOBODY, Fault
from kafkalite.testing.simulation.processes import ProcessKilled

if TYPE_CHECKING:
    from kafkalite.testing.simulation.cluster import SimulatedBroker, SimulatedCluster

MASS_FAULTS: Final[dict[str, tuple[str, str]]] = {
    "lose-rack": (
        BROKERS,
        "kill -9 of all of them at once, with `power` of 1 a power failure; they are started again after the length",
    ),
    "rolling-restart": (
        NOBODY,
        "a clean stop and a start of every broker, `at_once` together in the order of their ids; the next ones follow when these serve "
        "and the partitions that they have are in sync again, or after the length",
    ),
}
"""Of each kind: what its targets are, and what it does."""

_LOOK_S: Final = 0.1
_AGAIN_S: Final = 0.5


class MassActs:
    """One coroutine for each of `MASS_FAULTS`, of its name with underscores. NotNow where it makes no sense.

    `restart` starts a broker again.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        absences: Absences,
        restart: Callable[[SimulatedBroker], Awaitable[None]],
    ) -> None:
        self._cluster, self._absences, self._restart = cluster, absences, restart

    async def lose_rack(self, fault: Fault) -> None:
        rack = [each for each in self._cluster.brokers.values() if each.name in fault.targets]
        running = [each for each in rack if each.process is not None]
        if not running:
            raise NotNow("nobody runs there")
        if fault.parameter("power"):
            self._absences.may_forget()
        for each in running:
            if fault.parameter("power"):
                self._absences.forgets(each.broker_id)
                self._cluster.lose_power(each.broker_id)
            else:
                self._cluster.kill(each.broker_id)
        await asyncio.sleep(fault.length_s)
        await asyncio.gather(*map(self._restart, running))

    async def rolling_restart(self, fault: Fault) -> None:
        brokers, at_once = list(self._cluster.brokers.values()), max(1, int(fault.parameter("at_once", 1.0)))
        for first in range(0, len(brokers), at_once):
            await self._restart_group(fault, [each for each in brokers[first : first + at_once] if each.serves])

    async def _restart_group(self, fault: Fault, group: Sequence[SimulatedBroker]) -> None:
        stops = Fault(fault.at_s, "stop", tuple(each.name for each in group))
        while True:
            try:
                with self._absences.taking_away(stops):
                    await asyncio.gather(*map(self._stop_and_start, group))
                break
            except NotNow:
                await asyncio.sleep(_AGAIN_S)
        deadline_s = self._cluster.simulation.time.now_s + fault.length_s
        while self._has_late_replicas(group) and self._cluster.simulation.time.now_s < deadline_s:
            await asyncio.sleep(_LOOK_S)

    async def _stop_and_start(self, broker: SimulatedBroker) -> None:
        if broker.process is None or not broker.serves:
            return  # another fault was faster
        try:
            await self._cluster.stop(broker.broker_id)
        except ProcessKilled:
            pass  # by another fault, which starts it again
        await self._restart(broker)

    def _has_late_replicas(self, group: Sequence[SimulatedBroker]) -> bool:
        ids = {each.broker_id for each in group}
        for partition in self._cluster.out_of_sync():
            assignment = self._cluster.assignment(partition.topic)
            if assignment is not None and not ids.isdisjoint(assignment.partitions.get(partition.partition, ())):
                return True
        return False
