"""Three brokers, a producer and a group in one process, under a handful of seeds; `python -m tests.simulation` runs more of them."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys

import pytest

from kafkalite.testing.history.judge import RECORD_RULES
from kafkalite.testing.simulation.cluster import PORT, SimulatedCluster
from kafkalite.testing.simulation.processes import Simulation
from tests.simulation.scenario import Life


@pytest.mark.parametrize("seed", [1, 2, 8, 14, 15])
def test_promises_hold_under_kills_and_cuts(seed: int) -> None:
    outcome = Life(seed).run()
    assert outcome.verdict is not None
    assert outcome.verdict.idle([*RECORD_RULES, "C11", "C12", "C16", "C17", "C18"]) == []
    assert len(outcome.faults) >= 2


def test_a_seed_replays_identically_also_in_another_process() -> None:
    first, second = Life(3).run(), Life(3).run()
    assert (first.digest, str(first.simulation.trace)) == (second.digest, str(second.simulation.trace))
    command = [sys.executable, "-m", "tests.simulation", "--seed", "3"]
    other = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "12345"}, capture_output=True, text=True, check=True
    )
    assert re.findall("digest ([0-9a-f]+)", other.stdout) == [first.digest]


def test_a_broker_that_is_not_registered_yet_serves_nobody() -> None:
    """Its controller would reach it with what was meant for its earlier life: a part of the metadata, roles of long ago."""
    simulation = Simulation(1)
    cluster = SimulatedCluster(simulation, 2)

    async def scenario() -> None:
        await cluster.start()
        earlier_epoch = cluster.broker_epoch(2)
        cluster.kill(2)
        serving = cluster.brokers[2].begin().run(cluster.brokers[2].serve())
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
