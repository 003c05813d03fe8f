"""What a transcript does with failure detectors: verdicts that somebody has reached, firewalls, and who is registered."""

from __future__ import annotations

from typing import Final

from kafkalite.broker.failure_detection.detector import Verdict
from kafkalite.broker.failure_detection.evidence import Evidence
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.lies import carry_out, find_detection
from kafkalite.testing.simulation.processes import Simulation

_CARRIED_OUT_S: Final = 5.0


class Verdicts:
    """Commands of `tests.simulation.stories`; brokers are given by their numbers."""

    simulation: Simulation
    cluster: SimulatedCluster

    def __init__(self) -> None:
        self._seen_epochs: dict[int, int | None] = {}
        """Of each broker the registration that `registered` saw last."""

    async def _verdict(self, ender: str, victim: str, *words: str) -> list[str]:
        broker, judge = int(victim), self.cluster.brokers[int(ender)]
        detection = find_detection(judge)
        epoch = self._seen_epochs[broker] if "seen" in words else self.cluster.broker_epoch(broker)
        assert detection is not None and epoch is not None
        before = detection.outcomes.copy()
        carry_out(judge, Verdict(broker, epoch, Evidence.SILENT if "silent" in words else Evidence.REFUSED))
        await self.cluster.until(lambda: detection.outcomes != before, "what becomes of a verdict", _CARRIED_OUT_S)
        return [outcome.value for outcome in detection.outcomes - before]

    async def _reject(self, one: str, other: str) -> list[str]:
        self.simulation.network.reject(one, other, 1.0)
        self.simulation.network.reset(one, other)
        return []

    async def _accept(self, one: str, other: str) -> list[str]:
        self.simulation.network.reject(one, other, 0.0)
        return []

    async def _registered(self) -> list[str]:
        lines = []
        for broker in self.cluster.brokers:
            epoch, seen = self.cluster.broker_epoch(broker), self._seen_epochs.get(broker)
            how = "no" if epoch is None else "yes" if seen is None else "as before" if epoch == seen else "again"
            lines.append(f"broker-{broker}: {how}")
            self._seen_epochs[broker] = epoch
        return lines
