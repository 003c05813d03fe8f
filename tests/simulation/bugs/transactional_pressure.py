"""Plans for the hunt for bugs of transactions: coordinators, leaders and clients die in turns, and some of the clients are zombies."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from kafkalite.testing.simulation.faults import Fault
from tests.simulation.plan import KILL_CLIENT, PAUSE_CLIENT, Plan
from tests.simulation.transactions.plan import COORDINATORS, SEATS, draw_honest_transactions

_DEATH: Final = (("callbacks", 1.0),)


def transactional_pressure(seed: int) -> Plan:
    """The plan of a seed with these faults; transactions that are aborted often, and time out late."""
    chance, plan = random.Random(f"{seed}/transactional pressure"), draw_honest_transactions(seed)
    settings = {"zookeeper.session.timeout.ms": "2000", "transaction.state.log.num.partitions": "1"}
    workload = {
        **plan.workload,
        "pace_ms": 60,
        "aborted_percent": 40,
        "transaction_timeout_ms": 20_000 if seed % 2 else 1_500,
    }
    if seed % 5 == 3:
        workload |= {"transaction_timeout_ms": 1_500}
        settings |= {"transaction.partition.verification.enable": "false"}
        return replace(plan, settings=settings, workload=workload, faults=tuple(_slow_clients(chance)))
    if seed % 5 == 4:
        workload |= {"transaction_timeout_ms": 30_000, "delivery_timeout_ms": 5_500, "aborted_percent": 0}
        return replace(plan, settings=settings, workload=workload, faults=tuple(_unreachable_leaders(chance)))
    return replace(plan, settings=settings, workload=workload, faults=tuple(_deaths(chance)))


def _deaths(chance: random.Random) -> list[Fault]:
    faults = []
    for at_s in (0.7, 2.2, 3.7, 5.2):
        kind = chance.choice(["kill", "kill", "stop", KILL_CLIENT, KILL_CLIENT, PAUSE_CLIENT])
        if kind in (KILL_CLIENT, PAUSE_CLIENT):
            callbacks = (("callbacks", float(chance.randrange(1, 60))),) if kind == KILL_CLIENT else ()
            faults.append(Fault(at_s, kind, (chance.choice(SEATS),), 1.0, callbacks))
        else:
            role = chance.choice([*COORDINATORS, "leader:flights-0", "leader:freight-1"])
            faults.append(Fault(at_s, kind, (role,), chance.choice([0.5, 2.0]), _DEATH if kind == "kill" else ()))
    return faults


def _slow_clients(chance: random.Random) -> list[Fault]:
    """They fall silent until their transactions have timed out, and go on with them: nobody has taken their place."""
    moments = [0.7 + 4.0 * number + chance.uniform(0.0, 0.5) for number in range(3)]
    return [Fault(at_s, PAUSE_CLIENT, (seat,), 3.5, (("alone", 1.0),)) for at_s in moments for seat in SEATS]


def _unreachable_leaders(chance: random.Random) -> list[Fault]:
    """Clients cannot reach a leader until they give up what they had for it; then it dies, and what was on its way is lost."""
    leader = chance.choice(["leader:flights-0", "leader:flights-1", "leader:freight-0"])
    cuts = [Fault(chance.uniform(0.8, 1.5), "cut", (seat, leader), 10.0) for seat in SEATS]
    return [*cuts, Fault(9.5, "kill", (leader,), 2.0, _DEATH)]
