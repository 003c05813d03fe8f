"""Three brokers, producers and a group in one process, under some seeds; `python -m tests.simulation` runs more of them."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from kafkalite.testing.history.judge import RECORD_RULES
from kafkalite.testing.simulation.cluster import PORT, SimulatedCluster
from kafkalite.testing.simulation.processes import Simulation
from tests.simulation.plan import Plan, draw_plan
from tests.simulation.seeds import live
from tests.simulation.shrinking import shrink
from tests.simulation.simulation_run import SimulationRun

SEEDS, CHUNK = 140, 20


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_promises_hold(first: int) -> None:
    """A failure names its seed."""
    judged: Counter[str] = Counter()
    begun: set[str] = set()
    for seed in range(first, first + CHUNK):
        result, run = live(draw_plan(seed))
        assert not result.problem, f"{draw_plan(seed)}\n{result.problem}"
        assert run.outcome.verdict is not None
        judged.update(run.outcome.verdict.judged)
        begun.update(run.outcome.begun)
    assert [rule for rule in (*RECORD_RULES, "C11", "C12", "C16", "C17", "C18") if not judged[rule]] == []
    assert len(begun) >= 5


def _digests_of(seeds: range, hash_seed: int) -> list[str]:
    """Return the digests of seeds that run one after the other in another process, whose sets of strings `hash_seed` orders."""
    options = f"-m tests.simulation --from {seeds.start} --seeds {len(seeds)} --jobs 2 --tell".split()
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    told = subprocess.run([sys.executable, *options], env=environment, capture_output=True, text=True, check=True)
    return re.findall("digest ([0-9a-f]+)", told.stdout)


def test_a_seed_replays_identically_also_in_another_process() -> None:
    first, second = SimulationRun(draw_plan(3)).run(), SimulationRun(Plan.parse(str(draw_plan(3)))).run()
    assert (first.digest, str(first.simulation.trace)) == (second.digest, str(second.simulation.trace))
    assert _digests_of(range(3, 4), 12345) == [first.digest]


def test_a_run_of_transactions_depends_on_its_seed_alone() -> None:
    """Markers went to brokers in the order of a set, which is another one in each process."""
    (alone,) = _digests_of(range(9, 10), 1)
    _, behind_another = _digests_of(range(8, 10), 2)
    assert alone == behind_another


def test_a_broker_that_is_not_registered_yet_serves_nobody() -> None:
    """Its controller would reach it with what was meant for its earlier life: a part of the metadata, roles of long ago."""
    simulation = Simulation(1)
    cluster = SimulatedCluster(simulation, 2)

    async def scenario() -> None:
        await cluster.start()
        earlier_epoch = cluster.broker_epoch(2)
        cluster.kill(2)
        serving = cluster.brokers[2].start_process().run(cluster.brokers[2].serve())
        client = simulation.process("client")
        while not serving.done():
            try:
                await client.run(simulation.network.connect(client, asyncio.Protocol, "broker-2", PORT))
            except ConnectionRefusedError:
                await asyncio.sleep(0.002)
            else:
                assert cluster.broker_epoch(2) not in (None, earlier_epoch), (
                    "it serves while its old registration stands"
                )
                break
        await serving
        await cluster.stop()

    simulation.run(scenario())


def test_a_clean_stop_leaves_no_task_behind() -> None:
    """The watch of configuration changes went on as long as the process."""
    simulation = Simulation(1)
    cluster = SimulatedCluster(simulation, 1)

    async def scenario() -> None:
        await cluster.start()
        await cluster.stop()

    simulation.run(scenario())


def test_requests_that_a_fault_leaves_unanswered_are_no_leak() -> None:
    """Brokers that detect failures connect again and again to one that does not answer, and its tasks were counted."""
    plan = """\
seed 5081
setting kafkalite.failover.detection=evidence
setting kafkalite.failover.silence.ms=600
workload records=5
fault 1.207 misbehave broker-2 for 12 mute=0.5
"""
    result, _ = live(Plan.parse(plan))
    assert not result.problem


def test_a_list_of_faults_is_shortened_to_what_fails() -> None:
    asked: list[list[int]] = []

    def fails(parts: list[int]) -> bool:
        asked.append(parts)
        return {3, 11} <= set(parts)

    assert shrink(range(16), fails) == [3, 11]
    assert len(asked) < 60
    assert shrink([1], lambda parts: True) == []
    assert shrink([1, 2, 3], lambda parts: 2 in parts) == [2]


def test_a_plan_is_what_its_text_says() -> None:
    for seed in range(50):
        plan = draw_plan(seed)
        assert Plan.parse(str(plan)) == plan
