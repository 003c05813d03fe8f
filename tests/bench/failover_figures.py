"""The figures of one failover and of many: from moments to stages, from stages to percentiles. Nothing here reads a clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Victim = Literal["leader", "controller", "follower", "vanish"]
VICTIMS: Final[tuple[Victim, ...]] = ("leader", "controller", "follower", "vanish")
STAGES: Final = ("exit", "session", "seat", "election", "client")
"""In the order in which they happen; `total` is their sum, and `newcomer` lies beside them."""


class Sent(NamedTuple):
    """A record of a client that sends one at a time, in ns of CLOCK_MONOTONIC."""

    sent_ns: int
    acknowledged_ns: int


class Roles(NamedTuple):
    """Broker ids of a round. Who leads the written partition, and who is killed."""

    leader: int
    victim: int


@dataclass(frozen=True)
class Moments:
    """When it happened, in ns of CLOCK_MONOTONIC; None for what this kind of victim does not have."""

    struck_ns: int
    """SIGKILL was sent; of a host that vanishes, its last packet could pass."""

    exited_ns: int | None
    """The process has ended, by its pidfd."""

    session_ended_ns: int
    """The registration of the broker is gone."""

    seat_taken_ns: int | None
    """Another broker is the controller."""

    elected_ns: int
    """The partition's state names another leader, or an ISR without the follower."""

    acknowledged_ns: int
    """The first record that was sent or retried after the strike."""

    newcomer_ns: int | None = None
    """The first record of a client that did not know the victim."""


def choose_roles(victim: Victim, controller: int, brokers: Iterable[int]) -> Roles:
    """Return the leader and the victim of a round among at least three brokers: only `controller` strikes the controller."""
    first, second, *_ = (each for each in sorted(brokers) if each != controller)
    if victim == "controller":
        return Roles(controller, controller)
    return Roles(second, first) if victim == "follower" else Roles(first, first)


def first_acknowledgement(records: Iterable[Sent], struck_ns: int, session_ended_ns: int) -> int | None:
    """Return the moment of the first acknowledgement that shows a working partition; None while there is none.

    The record that was under way counts once the session has ended: before that, its acknowledgement may have been under way too.
    """
    for record in records:
        if record.sent_ns >= struck_ns or record.acknowledged_ns >= session_ended_ns:
            return record.acknowledged_ns
    return None


def stages_ms(moments: Moments) -> dict[str, float]:
    """Return the length of each stage in ms, `total`, and `newcomer` if there was one.

    A stage without a moment of its own is left out. One whose end was seen before that of the stage before it took 0: watches come a
    little later than what they tell.
    """
    ends = dict(
        zip(
            STAGES,
            (
                moments.exited_ns,
                moments.session_ended_ns,
                moments.seat_taken_ns,
                moments.elected_ns,
                moments.acknowledged_ns,
            ),
            strict=True,
        )
    )
    stages, reached_ns = {}, moments.struck_ns
    for name, end_ns in ends.items():
        if end_ns is not None:
            end_ns = min(end_ns, moments.acknowledged_ns)
            stages[name] = max(end_ns - reached_ns, 0) / 1e6
            reached_ns = max(reached_ns, end_ns)
    stages["total"] = (moments.acknowledged_ns - moments.struck_ns) / 1e6
    if moments.newcomer_ns is not None:
        stages["newcomer"] = (moments.newcomer_ns - moments.struck_ns) / 1e6
    return stages


class Summary(NamedTuple):
    """Nearest-rank percentiles: each is a figure that was measured."""

    p50: float
    p90: float
    most: float


def summarize(figures: Sequence[float]) -> Summary:
    """Return the percentiles. Raises ValueError without figures."""
    if not figures:
        raise ValueError("nothing was measured")
    in_order = sorted(figures)
    p50, p90 = (in_order[math.ceil(len(in_order) * share) - 1] for share in (0.5, 0.9))
    return Summary(p50, p90, in_order[-1])


def summarize_stages(rounds: Sequence[dict[str, float]]) -> dict[str, Summary]:
    """Return the percentiles of each stage over the rounds that have it, in their order."""
    names = [name for name in (*STAGES, "total", "newcomer") if any(name in each for each in rounds)]
    return {name: summarize([each[name] for each in rounds if name in each]) for name in names}
