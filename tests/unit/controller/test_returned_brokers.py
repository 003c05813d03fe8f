"""A broker that was away for a moment while nobody governed may have lost what it had: nobody saw it go, but its registration is young."""

from __future__ import annotations

import pytest

from kafkalite.testing.simulation.virtual_time import run
from tests.unit.controller.fake_cluster import FakeCluster


@pytest.mark.parametrize(
    ("replicas", "leader", "isr"),
    [
        pytest.param([1, 2, 3], 2, [2, 3], id="a leader that returned went on leading in its old epoch"),
        pytest.param([2, 1, 3], 2, [2, 3], id="a replica that returned stayed in the ISR"),
        pytest.param([1], 1, [1], id="the only replica leads, in a new epoch"),
    ],
)
def test_the_controller_loses_its_session_and_is_back_at_once(replicas: list[int], leader: int, isr: list[int]) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", replicas)
        await cluster.create_topic("untouched", [2, 3])
        before = await cluster.state("t-0")
        cluster.members[1].store.expire_session()
        await cluster.quiet()
        after = await cluster.state("t-0")
        assert (after.leader, sorted(after.isr)) == (leader, isr)
        assert after.leader_epoch > before.leader_epoch
        assert (await cluster.short_state("untouched-0"))[2] == 0
        assert not cluster.brokers[1].stopped("t-0"), (
            "nothing is stopped, since nothing would start it again in the same epoch"
        )
        await cluster.stop()

    run(scenario())
