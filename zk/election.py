"""Who leads a partition next: Kafka's strategies (PartitionLeaderElectionAlgorithms) as pure functions.

Every function takes the replicas in order of preference and the current ISR, and returns the new leader, the new ISR and
the brokers that must hear of it, or None when nobody may lead; the state znode is then left as it is. A result always
raises the leader epoch by one. An ISR is never empty.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class ElectionResult(NamedTuple):
    """`recovering` marks an unclean election (KIP-704); `recipients` get LeaderAndIsr."""

    leader: int
    isr: tuple[int, ...]
    recipients: tuple[int, ...]
    recovering: bool = False


def new_partition(replicas: Sequence[int], online: Collection[int]) -> ElectionResult | None:
    """The first leader of a partition: the first online replica, with all online ones in the ISR."""
    live = tuple(broker for broker in replicas if broker in online)
    return ElectionResult(live[0], live, live) if live else None


def offline(
    replicas: Sequence[int], isr: Sequence[int], online: Collection[int], unclean_allowed: bool
) -> ElectionResult | None:
    """A leader for a partition that lost its own: an online member of the ISR.

    When there is none and it is allowed (`unclean.leader.election.enable`, or an admin's request), any online replica,
    which then starts a new ISR of its own and may lack committed records.
    """
    live = tuple(broker for broker in replicas if broker in online)
    leader = next((broker for broker in live if broker in isr), None)
    if leader is not None:
        return ElectionResult(leader, tuple(broker for broker in isr if broker in online), live)
    if unclean_allowed and live:
        return ElectionResult(live[0], (live[0],), live, recovering=True)
    return None


def reassignment(target: Sequence[int], isr: Sequence[int], online: Collection[int]) -> ElectionResult | None:
    """A leader among the replicas that will remain; the ISR stays, dead members too, until they go offline themselves."""
    leader = next((broker for broker in target if broker in online and broker in isr), None)
    return None if leader is None else ElectionResult(leader, tuple(isr), tuple(target))


def preferred(replicas: Sequence[int], isr: Sequence[int], online: Collection[int]) -> ElectionResult | None:
    """The first replica, if it is online and in the ISR."""
    if not replicas or replicas[0] not in online or replicas[0] not in isr:
        return None
    return ElectionResult(replicas[0], tuple(isr), tuple(replicas))


def controlled_shutdown(
    replicas: Sequence[int], isr: Sequence[int], up: Collection[int], shutting_down: Collection[int]
) -> ElectionResult | None:
    """A leader that is not about to leave; those that are leave the ISR. `up` counts brokers that are shutting down."""
    live = tuple(broker for broker in replicas if broker in up)
    leader = next((broker for broker in live if broker in isr and broker not in shutting_down), None)
    if leader is None:
        return None
    return ElectionResult(leader, tuple(broker for broker in isr if broker not in shutting_down), live)
