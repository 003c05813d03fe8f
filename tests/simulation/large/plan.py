"""What a seed draws for a large cluster: how its racks lie, settings, and two or three acts that concern many brokers at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafkalite.testing.simulation.faults import Fault
from tests.simulation.plan import Plan

BROKERS: Final = "brokers"
"""The key of `workload` with the number of brokers; a plan without it is of another form of run."""
REASSIGN_ALL: Final = "reassign-all"
RACKS: Final = 10
WRITERS, READERS = 3, 3
_WINDOW_S: Final = 5.0
_SETTINGS: Final[Mapping[str, Sequence[str]]] = {
    "zookeeper.session.timeout.ms": ("2000", "2000", "6000"),
    "replica.lag.time.max.ms": ("6000", "10000", "30000"),
    "auto.leader.rebalance.enable": ("true", "false"),
    "leader.imbalance.check.interval.seconds": ("2", "300"),
    "controller.socket.timeout.ms": ("1000", "30000"),
    "log.segment.bytes": ("1000", "1073741824"),
    "num.replica.fetchers": ("1", "1", "2"),
}
_IDLE: Final[Mapping[str, str]] = {"replica.fetch.wait.max.ms": "2000"}
"""Followers of idle partitions ask every two seconds instead of twice in one: that is most of what a run costs."""
_EVIDENCE: Final[Mapping[str, str]] = {
    "kafkalite.failover.detection": "evidence",
    "kafkalite.failover.heartbeat.interval.ms": "1000",
}
_EVIDENCE_SHARE: Final = 0.2
_OFFSETS_LEADER: Final = "leader:__consumer_offsets-0"


def find_racks(plan: Plan) -> dict[int, str]:
    """Return the rack of each broker: neighbours by id share one, or none do where the racks are `interleaved`."""
    count = plan.workload[BROKERS]
    racks = min(RACKS, count)
    interleaved = bool(plan.workload.get("interleaved"))
    return {
        broker: f"rack-{(broker - 1) % racks if interleaved else (broker - 1) * racks // count}"
        for broker in range(1, count + 1)
    }


def draw_large(seed: int, brokers: int = 100) -> Plan:
    """Return the plan of a seed for so many brokers."""
    chance = random.Random(f"{seed}/large")
    chosen = chance.sample(list(_SETTINGS), chance.choice([2, 4, 6]))
    settings = {**_IDLE, **{name: chance.choice(_SETTINGS[name]) for name in chosen}}
    if chance.random() < _EVIDENCE_SHARE:
        settings |= _EVIDENCE
    plan = Plan(
        seed,
        settings,
        {
            BROKERS: brokers,
            "interleaved": chance.choice([0, 1]),
            "topics": min(chance.choice([24, 30, 36]), brokers),
            "partitions": 2,
            "records": chance.choice([30, 60]),
            "pace_ms": chance.choice([50, 100]),
            "batch_size": chance.choice([1, 16384]),
            "proves_metadata": chance.choice([0, 1, 1]),
        },
    )
    acts = chance.sample(_ACTS, chance.choice([2, 2, 3]))
    drawn = [each for act in acts for each in act(chance, plan)]
    rounded = sorted(
        (replace(each, at_s=round(each.at_s, 3), length_s=round(each.length_s, 3)) for each in drawn),
        key=lambda each: each.at_s,
    )
    return replace(
        plan,
        faults=tuple(each for each in rounded if each.kind != REASSIGN_ALL),
        operations=tuple(each for each in rounded if each.kind == REASSIGN_ALL),
    )


def _find_rack(chance: random.Random, plan: Plan) -> tuple[str, ...]:
    racks = find_racks(plan)
    lost = chance.choice(list(dict.fromkeys(racks.values())))
    return tuple(f"broker-{broker}" for broker, rack in racks.items() if rack == lost)


def _lose_rack(chance: random.Random, plan: Plan) -> list[Fault]:
    """A rack is lost by a kill or a power failure, or only cut off, and comes back."""
    rack, at_s, length_s = _find_rack(chance, plan), chance.uniform(0.0, _WINDOW_S), chance.choice([0.3, 4.0, 9.0])
    kind = chance.choice(["lose-rack", "lose-rack", "partition"])
    power = (("power", 1.0),) if kind == "lose-rack" and chance.random() < 0.5 else ()
    return [Fault(at_s, kind, rack, length_s, power)]


def _elect_controllers(chance: random.Random, plan: Plan) -> list[Fault]:
    """Controllers die, fall silent, lose their session or their seat, one after the other."""
    faults, at_s = [], 0.0
    for _ in range(chance.choice([2, 3, 5])):
        at_s += chance.uniform(0.1, 3.0)
        kind = chance.choice(["kill", "kill", "expire-session", "pause", "delete-controller"])
        length_s = chance.choice([0.5, 3.0, 8.0]) if kind in ("kill", "pause") else 0.0
        callbacks = (("callbacks", float(chance.randrange(1, 400))),) if kind == "kill" else ()
        faults.append(Fault(at_s, kind, () if kind == "delete-controller" else ("controller",), length_s, callbacks))
    return faults


def _kill_several(chance: random.Random, plan: Plan) -> list[Fault]:
    """Brokers anywhere die within half a second; a coordinator is one of them."""
    at_s = chance.uniform(0.0, _WINDOW_S)
    brokers = chance.sample(range(1, plan.workload[BROKERS] + 1), chance.choice([3, 6, 10]))
    return [
        Fault(
            at_s + chance.uniform(0.0, 0.5),
            "kill",
            (target,),
            chance.choice([0.5, 4.0, 8.0]),
            (("callbacks", float(chance.randrange(1, 100))),),
        )
        for target in [*(f"broker-{each}" for each in brokers), _OFFSETS_LEADER]
    ]


def _restart_all(chance: random.Random, plan: Plan) -> list[Fault]:
    """Restart every broker, as many at once as a rack has, or twice as many."""
    at_once = (("at_once", float(chance.choice([1, 1, 2]) * max(1, plan.workload[BROKERS] // RACKS))),)
    return [Fault(chance.uniform(0.0, 1.0), "rolling-restart", (), chance.choice([0.5, 3.0]), at_once)]


def _reassign_all(chance: random.Random, plan: Plan) -> list[Fault]:
    """Move every partition to other brokers, `at_once` together, with a throttle in bytes a second or none."""
    parameters = {
        "at_once": chance.choice([10, 40, 1000]),
        "throttle": chance.choice([0, 0, 2_000, 100_000]),
        "seed": chance.randrange(1000),
    }
    numbers = tuple((name, float(value)) for name, value in parameters.items())
    return [Fault(chance.uniform(0.0, 2.0), REASSIGN_ALL, (), 0.0, numbers)]


_ACTS: Final[Sequence[Callable[[random.Random, Plan], list[Fault]]]] = (
    _lose_rack,
    _elect_controllers,
    _kill_several,
    _restart_all,
    _reassign_all,
)
