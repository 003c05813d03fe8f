"""Faults as data: what a seed drew, in an order and at moments, so that a list can be printed, shortened and replayed.

A line of a list reads `   2.500 cut-one-way broker-1 broker-2 for 4.000` or `   1.000 slow-link broker-1 broker-3 for 2.000 delay_s=0.3`:
the moment in seconds, the kind, its targets, how long it lasts, and its parameters. Targets are machines, or roles that are looked up
when the fault begins: `leader:flights-0`, `controller`. `KINDS` says what each kind does; `simulation.fault_acts` does it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafkalite.failpoints import FAILPOINTS


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault with its moment, kind, targets and duration. `parameters` are names and numbers."""

    at_s: float
    kind: str
    targets: tuple[str, ...] = ()
    length_s: float = 0.0
    parameters: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        words = [f"{self.at_s:8.3f}", self.kind, *self.targets]
        if self.length_s:
            words += ["for", f"{self.length_s:.3f}"]
        return " ".join([*words, *(f"{name}={value:g}" for name, value in self.parameters)])

    @classmethod
    def parse(cls, line: str) -> Fault:
        """Return the fault of a line that `str` wrote. ValueError."""
        at_s, kind, *words = line.split()
        targets: list[str] = []
        length_s, parameters = 0.0, []
        rest = iter(words)
        for word in rest:
            name, equals, value = word.partition("=")
            if equals:
                parameters.append((name, float(value)))
            elif word == "for":
                length_s = float(next(rest))
            else:
                targets.append(word)
        return cls(float(at_s), kind, tuple(targets), length_s, tuple(parameters))

    def parameter(self, name: str, default: float = 0.0) -> float:
        return dict(self.parameters).get(name, default)


BROKER, LINK, BROKERS, NOBODY = "broker", "link", "brokers", "nobody"

KINDS: Final[dict[str, tuple[str, str]]] = {
    "kill": (BROKER, "kill -9 between two callbacks; it is started again after the length"),
    "kill-at": (
        BROKER,
        "kill -9 when it reaches a failpoint of `kafkalite.failpoints` for the n-th time; started again after the length",
    ),
    "stall-at": (
        BROKER,
        "as if it were in swap: whenever it reaches a failpoint, nothing of it runs for `delay_s` with this `chance`",
    ),
    "misbehave": (
        BROKER,
        "requests are done `late`, `lost`, done and not answered (`mute`), or `refused` (Produce), each with its chance",
    ),
    "kill-all": (NOBODY, "kill -9 of all brokers at once; they are started again after the length"),
    "stop": (BROKER, "a clean stop; it is started again after the length"),
    "pause": (BROKER, "SIGSTOP for the length"),
    "lose-power": (
        BROKER,
        "what was not synced is lost, with torn writes; `swaps` files are what they were before; on again after the length",
    ),
    "cut": (LINK, "nothing goes between two machines"),
    "cut-one-way": (LINK, "nothing goes from the first to the second"),
    "isolate": (BROKER, "nothing goes between the machine and any other; ZooKeeper hears it"),
    "partition": (BROKERS, "the machines named see each other, and not the others"),
    "slow-link": (LINK, "everything from the first to the second takes `delay_s` longer"),
    "trickle": (LINK, "from the first to the second go `bytes_per_s`"),
    "reset": (LINK, "all connections between the two end with a reset"),
    "half-close": (LINK, "the first forgets its connections to the second, which is not told"),
    "cut-zookeeper": (BROKER, "nothing goes between the broker and ZooKeeper"),
    "expire-session": (BROKER, "ZooKeeper ends the broker's session"),
    "expire-all": (NOBODY, "ZooKeeper ends the sessions of all brokers at once"),
    "lose-reply": (BROKER, "ZooKeeper's next reply to the broker is lost with its connection"),
    "slow-zookeeper": (BROKER, "requests reach ZooKeeper `delay_s` later, and so do its answers and watch events"),
    "lose-quorum": (NOBODY, "ZooKeeper answers nobody"),
    "delete-controller": (NOBODY, "somebody deletes /controller"),
    "full-disk": (BROKER, "writes end with ENOSPC"),
    "bad-disk": (BROKER, "`write`, `sync` or `read` end with EIO; afterwards the broker is started again"),
    "slow-disk": (BROKER, "a write to a log stops the broker's loop for `delay_s`"),
    "jump-clock": (BROKER, "the wall clock is wrong by `seconds`"),
}
"""Of each kind: what its targets are, and what it does."""

MISBEHAVIOURS: Final = ("late", "lost", "mute", "refused")
POINTS: Final = tuple(name for name in FAILPOINTS if name != "loop.turn")


def draw_faults(
    chance: random.Random, brokers: Sequence[str], clients: Sequence[str], roles: Sequence[str], window_s: float
) -> list[Fault]:
    """Draw the faults of one run: few kinds, each perhaps several times, since what comes together matters."""
    kinds = chance.sample(list(KINDS), chance.choice([1, 2, 3, 4, 6]))
    faults = []
    for _ in range(chance.choice([1, 2, 3, 4, 6])):
        kind = chance.choice(kinds)
        at_s = round(chance.uniform(0.0, window_s), 3)
        length_s = round(chance.choice([0.1, 0.5, 2.0, 4.0, 8.0]) * chance.uniform(0.5, 1.5), 3)
        faults.append(
            Fault(
                at_s,
                kind,
                _targets(chance, KINDS[kind][0], brokers, clients, roles),
                length_s,
                _parameters(chance, kind),
            )
        )
    return sorted(faults, key=lambda each: each.at_s)


def _targets(
    chance: random.Random, what: str, brokers: Sequence[str], clients: Sequence[str], roles: Sequence[str]
) -> tuple[str, ...]:
    if what == NOBODY:
        return ()
    broker = chance.choice([*brokers, *roles]) if chance.random() < 0.7 else chance.choice(roles)
    if what == BROKER:
        return (broker,)
    if what == BROKERS:
        return tuple(sorted(chance.sample([*brokers, *clients], chance.randint(1, len(brokers)))))
    other = chance.choice([each for each in [*brokers, *brokers, *clients] if each != broker])
    return (broker, other) if chance.random() < 0.5 else (other, broker)


def _parameters(chance: random.Random, kind: str) -> tuple[tuple[str, float], ...]:
    if kind in ("slow-link", "slow-zookeeper"):
        return (("delay_s", round(chance.choice([0.05, 0.3, 1.0, 3.0]) * chance.uniform(0.5, 1.5), 3)),)
    if kind == "slow-disk":
        return (("delay_s", round(chance.choice([0.02, 0.1, 0.5]), 3)),)
    if kind == "stall-at":
        return (("chance", chance.choice([0.02, 0.2])), ("delay_s", chance.choice([0.05, 0.5, 3.0])))
    if kind == "misbehave":
        names = chance.sample(MISBEHAVIOURS, chance.choice([1, 2]))
        return tuple((name, chance.choice([0.01, 0.05, 0.2])) for name in names)
    if kind == "trickle":
        return (("bytes_per_s", float(chance.choice([300, 2_000, 20_000]))),)
    if kind == "jump-clock":
        return (("seconds", float(chance.choice([-3600, -5, 5, 3600]))),)
    if kind == "bad-disk":
        return ((chance.choice(["write", "sync", "read"]), 1.0),)
    if kind == "lose-power":
        return (("swaps", float(chance.choice([0, 0, 1, 2]))),)
    if kind == "kill-at":
        return ((chance.choice(POINTS), float(chance.choice([1, 1, 2, 5]))),)
    if kind == "kill":
        return (("callbacks", float(chance.randrange(1, 200))),)
    return ()
