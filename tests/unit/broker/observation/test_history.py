"""The figures of the last hour of a broker."""

from __future__ import annotations

import asyncio

from kafkalite.broker.broker_state import BrokerState
from kafkalite.broker.observation.history import EVERY_S, FIGURES, POINTS, History
from kafkalite.histogram import Histogram
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.observation.fake_broker import FakeBroker, FakeDispatcher, FakeServing


class Measured(FakeBroker):
    """With latencies."""

    def __init__(self) -> None:
        super().__init__()
        self.latencies = {ApiKey.PRODUCE: Histogram(), ApiKey.FETCH: Histogram(), ApiKey.METADATA: Histogram()}
        self.replicas.statistics = lambda: {"under_replicated": 3}

    @property
    def serving(self) -> FakeServing | None:
        dispatcher = FakeDispatcher(self.latencies, Histogram())
        return FakeServing(self, dispatcher) if self.state >= BrokerState.RUNNING else None


def test_points_are_made_of_what_happened_since_the_one_before() -> None:
    async def scenario() -> None:
        broker = Measured()
        broker.host("t", 0, 50)
        broker.group("g", {("t", 0): 20, ("elsewhere", 0): 1})
        history = History(broker)  # type: ignore[arg-type]
        history.start()
        await asyncio.sleep(EVERY_S + 1)
        for _ in range(40):
            broker.latencies[ApiKey.PRODUCE].observe(0.003)
        broker.latencies[ApiKey.FETCH].observe(0.5)
        broker.traffic.count_produced("t", 1000, 3)
        await asyncio.sleep(EVERY_S)
        history.stop()
        values = history.to_dict()["values"]
        assert {name: found[-1] for name, found in values.items()} == {
            "requests_per_s": 4.1,
            "bytes_in_per_s": 100.0,
            "bytes_out_per_s": 0.0,
            "produce_p99_ms": 4.975,
            "other_p99_ms": None,
            "under_replicated": 3.0,
            "lag": 30.0,
        }
        assert values["requests_per_s"][0] is None and values["lag"][0] == 30.0
        await asyncio.sleep(EVERY_S * 3)
        assert len(history.series) == 2

    virtual_time.run(scenario())


def test_a_broker_that_does_not_serve_has_no_figures_and_the_cost_is_fixed() -> None:
    async def scenario() -> None:
        broker = Measured()
        broker.state = BrokerState.RECOVERY
        history = History(broker)  # type: ignore[arg-type]
        await history.take_sample()
        assert set(history.to_dict()["values"]) == set(FIGURES)
        assert all(found == [None] for found in history.to_dict()["values"].values())
        assert history.series.size_bytes == 8 * POINTS * (1 + len(FIGURES)) < 25_000

    virtual_time.run(scenario())
