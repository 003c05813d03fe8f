"""`kafkalite.testing.simulate`: a naive program of a user loses an update, and the seed that shows it does so again."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.client import Consumer
from kafkalite.testing import SimulatedFaults, SimulationFailed, World, simulate
from kafkalite.testing.simulation.programs import SEED_VARIABLE

PAYMENTS = 12
KILLS = SimulatedFaults(program_kills=3, broker_kills=0, cuts=0, within_s=4.0)


class Bank:
    """A database: what is in it outlives the program that wrote it. A payment is entered once, however often it comes."""

    def __init__(self) -> None:
        self.payments: dict[int, bytes] = {}

    async def enter(self, number: int, payment: bytes) -> None:
        await asyncio.sleep(0.2)  # it is far away
        self.payments[number] = payment


async def book(servers: str, bank: Bank, *, commits_first: bool) -> None:
    """The user's program."""
    consumer = Consumer(
        "payments",
        bootstrap_servers=servers,
        group_id="bank",
        group_instance_id="teller",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with consumer:
        async for payment in consumer:
            if commits_first:
                await consumer.commit()
            await bank.enter(payment.offset, payment.value)
            if not commits_first:
                await consumer.commit()


async def payments_are_booked(world: World, *, commits_first: bool) -> None:
    bank = Bank()
    await world.create_topic("payments")
    await world.send("payments", [b"%d" % number for number in range(PAYMENTS)])
    world.start("teller", lambda: book(world.bootstrap_servers, bank, commits_first=commits_first))
    await world.caught_up("bank", "payments")
    await asyncio.sleep(1.0)
    assert len(bank.payments) == PAYMENTS, f"{PAYMENTS - len(bank.payments)} payments are lost"


async def naive_bank(world: World) -> None:
    await payments_are_booked(world, commits_first=True)


@simulate(seeds=2, faults=SimulatedFaults(within_s=6.0))
async def test_a_bank_that_commits_what_it_has_booked_loses_nothing(world: World) -> None:
    await payments_are_booked(world, commits_first=False)


def test_a_bank_that_commits_first_loses_a_payment_and_the_seed_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SimulationFailed, match=r"payments are lost(?s:.*)faults: .*teller is killed") as first:
        simulate(naive_bank, seeds=50, brokers=1, faults=KILLS)
    seed = first.value.seed
    monkeypatch.setenv(SEED_VARIABLE, str(seed))
    with pytest.raises(SimulationFailed) as again:
        simulate(naive_bank, seeds=50, brokers=1, faults=KILLS)
    faults_and_trace = [str(each.value).partition("faults: ")[2] for each in (first, again)]
    assert faults_and_trace[0] == faults_and_trace[1]
