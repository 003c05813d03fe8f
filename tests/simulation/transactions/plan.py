"""What a seed draws for a run of transactions: faults of brokers and of clients, and how the clients go about it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafkalite.testing.simulation.faults import Fault, draw_faults
from tests.simulation.plan import (
    BROKERS,
    CLIENT_FAULTS,
    KILL_CLIENT,
    Plan,
    add_lies,
    draw_honest,
    draw_ways,
    without_refused,
)

TRANSACTIONS: Final = "transactions"
"""The key of `workload` that makes a plan one of transactions."""
FEEDER: Final = "feeder"
COPIERS: Final = ("copier-0", "copier-1")
SEATS: Final = (FEEDER, *COPIERS)
CLIENTS: Final = ("producer-all", *SEATS)
COORDINATORS: Final = ("leader:__transaction_state-0", "leader:__consumer_offsets-0")
ROLES: Final = (*COORDINATORS, "leader:flights-0", "leader:freight-1", "follower:freight-0", "controller")
WINDOW_S: Final = 4.0
_WAYS: Final = ("authenticates", "portion_bytes", "proves_metadata")

_SETTINGS: Final[Mapping[str, Sequence[str]]] = {
    "transaction.state.log.num.partitions": ("1", "2"),
    "transaction.state.log.min.isr": ("2", "2", "1"),
    "transaction.state.log.segment.bytes": ("1000", "104857600"),
    "transaction.partition.verification.enable": ("true", "true", "false"),
    "offsets.topic.num.partitions": ("1", "2"),
    "log.segment.bytes": ("1000", "5000", "1073741824"),
    "producer.id.expiration.ms": ("86400000",),
}
BASE: Final[Mapping[str, str]] = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
"""What every run has, unless its plan says otherwise."""


def draw_transactions(seed: int) -> Plan:
    """The plan of a seed: a few of the settings of any run, and those of coordinators."""
    return add_transactional_lies(draw_honest_transactions(seed))


def add_transactional_lies(plan: Plan) -> Plan:
    """As `add_lies`; without a topic that allows unclean elections."""
    return replace(add_lies(plan, ROLES, WINDOW_S), workload=plan.workload)


def draw_honest_transactions(seed: int) -> Plan:
    """The same, whose brokers take nobody for dead but on their own evidence."""
    chance, usual = random.Random(f"{seed}/transactions"), draw_honest(seed)
    names = chance.sample(list(_SETTINGS), chance.choice([1, 3, 5]))
    settings = {**usual.settings, **{name: chance.choice(_SETTINGS[name]) for name in names}}
    faults = [*_client_faults(chance), *draw_faults(chance, BROKERS, CLIENTS, ROLES, WINDOW_S)]
    plan = Plan(
        seed,
        settings,
        {
            TRANSACTIONS: 1,
            "records": chance.choice([5, 15]),
            "pace_ms": chance.choice([100, 300]),
            "flights_min_isr": chance.choice([1, 2, 2]),
            "freight_min_isr": chance.choice([1, 2, 2]),
            "batch_size": chance.choice([1, 300, 16384]),
            "linger_ms": chance.choice([0, 5, 50]),
            "compression": chance.choice([0, 0, 1, 2, 3, 4]),
            "static_members": chance.choice([0, 1]),
            "session_timeout_ms": chance.choice([6000, 10000]),
            "transaction_timeout_ms": chance.choice([1500, 5000, 20000]),
            "aborted_percent": chance.choice([0, 20, 50]),
            **{name: value for name, value in draw_ways(seed).items() if name in _WAYS},
        },
        tuple(sorted(faults, key=lambda each: each.at_s)),
    )
    return without_refused(plan)


def _client_faults(chance: random.Random) -> list[Fault]:
    faults = []
    for _ in range(chance.choice([0, 1, 2, 4])):
        kind, seat = chance.choice(CLIENT_FAULTS), chance.choice(SEATS)
        at_s, length_s = round(chance.uniform(0.3, WINDOW_S), 3), round(chance.choice([0.1, 1.0, 4.0]), 3)
        callbacks = (("callbacks", float(chance.randrange(1, 100))),) if kind == KILL_CLIENT else ()
        faults.append(Fault(at_s, kind, (seat,), length_s, callbacks))
    return faults
