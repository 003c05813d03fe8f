"""Plans for the hunt: faults that belong together. The rest is as a seed draws it.

A leader that sees its clients and no other broker appends what nobody else has; only when it dies or is deposed then, what its followers
and its successor do about that shows. Faults that are drawn each by itself seldom come in that order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kafkalite.testing.simulation.faults import Fault
from tests.simulation.plan import CLIENTS, FOR_GOOD, KILL_CLIENT, MEMBERS, PAUSE_CLIENT, Plan, draw_patient

_LEADERS: Final = ("leader:flights-0", "leader:flights-1", "leader:freight-0")
_COORDINATOR: Final = "leader:__consumer_offsets-0"


def _alone_and_killed(chance: random.Random) -> list[Fault]:
    """Its followers cannot reach a leader, clients can; then it dies."""
    leader, alone_s = chance.choice(_LEADERS), chance.uniform(0.3, 3.0)
    return [
        Fault(0.5, "partition", (leader, *CLIENTS), alone_s),
        Fault(0.5 + alone_s * 0.9, "kill", (leader,), chance.choice([0.1, 3.0, 9.0]), (("callbacks", 1.0),)),
    ]


def _zombie(chance: random.Random) -> list[Fault]:
    """A leader that only clients reach is deposed, and does not know."""
    leader = chance.choice(_LEADERS)
    return [Fault(0.5, "cut-zookeeper", (leader,), 11.0), Fault(0.5, "partition", (leader, *CLIENTS), 11.0)]


def _leaders_in_a_row(chance: random.Random) -> list[Fault]:
    """Each leader dies shortly after it was elected (KIP-279)."""
    leader = chance.choice(_LEADERS)
    moments = [1.0, chance.uniform(7.5, 9.0), chance.uniform(14.0, 17.0)]
    return [Fault(at_s, "kill", (leader,), chance.choice([1.0, 4.0, 9.0]), (("callbacks", 1.0),)) for at_s in moments]


def _lagging_follower(chance: random.Random) -> list[Fault]:
    """A follower is out of reach for a while, comes back, and its leader dies while it catches up."""
    leader, follower = "leader:flights-0", "follower:flights-0"
    back_s = chance.uniform(5.0, 8.0)
    return [
        Fault(0.3, "isolate", (follower,), back_s),
        Fault(0.4 + back_s + chance.uniform(0.0, 0.8), "kill", (leader,), 9.0, (("callbacks", 1.0),)),
    ]


def _coordinators_in_a_row(chance: random.Random) -> list[Fault]:
    return [
        Fault(at_s, "stop" if chance.random() < 0.5 else "kill", (_COORDINATOR,), 2.0, (("callbacks", 1.0),))
        for at_s in (1.5, chance.uniform(3.0, 9.0), chance.uniform(9.0, 16.0))
    ]


def _controllers(chance: random.Random) -> list[Fault]:
    """A controller falls silent, another one is elected, a leader dies meanwhile, and the first wakes up."""
    return [
        Fault(0.5, "pause", ("controller",), 9.0),
        Fault(chance.uniform(1.0, 7.0), "kill", (chance.choice(_LEADERS),), 3.0, (("callbacks", 1.0),)),
        Fault(chance.uniform(9.0, 11.0), "delete-controller", (), 0.0),
        Fault(chance.uniform(9.0, 11.0), "kill", (chance.choice(_LEADERS),), 1.0, (("callbacks", 1.0),)),
    ]


def _power(chance: random.Random) -> list[Fault]:
    return [
        Fault(at_s, "lose-power", (chance.choice(_LEADERS),), 8.0, (("swaps", float(chance.choice([0, 1]))),))
        for at_s in (chance.uniform(0.5, 3.0), chance.uniform(14.0, 16.0))
    ]


def _sessions(chance: random.Random) -> list[Fault]:
    """Sessions end while their brokers live on: leaders, coordinators and the controller change, and no connection is lost."""
    roles = (*_LEADERS, _COORDINATOR, _COORDINATOR, "controller")
    moments = [0.7, *(chance.uniform(1.0, 9.0) for _ in range(5))]
    slow = Fault(0.6, "slow-zookeeper", ("controller",), 9.0, (("delay_s", chance.choice([0.05, 0.5])),))
    return [slow, *(Fault(at_s, "expire-session", (chance.choice(roles),), 0.0) for at_s in moments)]


def _silent_members(chance: random.Random) -> list[Fault]:
    """Members of the group fall silent for longer than their session, or die and are replaced, while the coordinator changes."""
    one, other = chance.sample(MEMBERS, 2)
    return [
        Fault(chance.uniform(0.8, 2.5), PAUSE_CLIENT, (one,), chance.choice([7.0, 9.0, 11.0])),
        Fault(chance.uniform(1.0, 3.0), KILL_CLIENT, (other,), 9.0, (("callbacks", float(chance.randrange(1, 40))),)),
        Fault(chance.uniform(1.0, 9.0), "expire-session", (_COORDINATOR,), 0.0),
    ]


def _lasting_death(chance: random.Random) -> list[Fault]:
    """As silent members, but nobody takes the place of the one that dies: only the end of its session takes it out of the group.

    The JoinGroup of a replacement would start a rebalance, and the rebalance timeout removes every member that does not rejoin.
    """
    return [
        replace(each, length_s=0.0, parameters=(*each.parameters, (FOR_GOOD, 1.0)))
        if each.kind == KILL_CLIENT
        else each
        for each in _silent_members(chance)
    ]


def _late_commits(chance: random.Random) -> list[Fault]:
    """What a member sends to its coordinator arrives seconds later, when the group has other generations."""
    one, other = chance.sample(MEMBERS, 2)
    delays_s = chance.choice([3.0, 6.0, 8.0])
    return [
        *(Fault(at_s, "slow-link", (one, _COORDINATOR), 2.0, (("delay_s", delays_s),)) for at_s in (1.0, 6.0)),
        Fault(chance.uniform(1.0, 3.0), KILL_CLIENT, (other,), 0.5, (("callbacks", 1.0),)),
        Fault(chance.uniform(6.0, 8.0), KILL_CLIENT, (other,), 0.5, (("callbacks", 1.0),)),
    ]


def _misbehaviour(chance: random.Random) -> list[Fault]:
    """Leaders refuse, and lose answers, of many that are on their way at once; then one of them dies."""
    odds = (("refused", 0.3), ("mute", 0.03))
    return [
        *(Fault(0.5, "misbehave", (leader,), 4.0, odds) for leader in _LEADERS[:2]),
        Fault(chance.uniform(2.0, 5.0), "kill", (chance.choice(_LEADERS),), 3.0, (("callbacks", 1.0),)),
    ]


_STORIES: Final[tuple[Callable[[random.Random], list[Fault]], ...]] = (
    _alone_and_killed,
    _zombie,
    _leaders_in_a_row,
    _lagging_follower,
    _coordinators_in_a_row,
    _controllers,
    _power,
    _sessions,
    _silent_members,
    _misbehaviour,
)
_MEMBER_STORIES: Final = (_late_commits, _lasting_death, _late_commits, _silent_members)
"""Stories that take turns in the place of silent members."""


def pressure(seed: int) -> Plan:
    """The plan of a seed with the faults of a story, each in its turn, and now and then with those that it draws itself."""
    chance, plan = random.Random(f"{seed}/pressure"), draw_patient(seed)
    story = _STORIES[seed % len(_STORIES)]
    if story is _silent_members:
        story = _MEMBER_STORIES[seed // len(_STORIES) % len(_MEMBER_STORIES)]
    faults = story(chance)
    if chance.random() < 0.3:
        faults += plan.faults
    settings = {"replica.lag.time.max.ms": chance.choice(["1500", "5000", "30000"]), **plan.settings}
    settings["zookeeper.session.timeout.ms"] = "2000"  # so that a successor is elected before the dead one is back
    workload = {**plan.workload, "records": 60, "pace_ms": 30, "flights_min_isr": chance.choice([1, 2]), "compacts": 1}
    if story is _late_commits:
        workload["session_timeout_ms"] = 10_000  # who is late is still a member
    rounded = [replace(each, at_s=round(each.at_s, 3), length_s=round(each.length_s, 3)) for each in faults]
    return replace(
        plan, settings=settings, workload=workload, faults=tuple(sorted(rounded, key=lambda each: each.at_s))
    )
