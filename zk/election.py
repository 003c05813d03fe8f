"""Leader election of partitions: Kafka's PartitionLeaderElectionAlgorithms as pure functions.

Every function takes the replicas in order of preference and the current ISR, and returns the new leader, the new ISR and the
recipients of LeaderAndIsr, or None without an eligible leader. A result raises the leader epoch by one. An ISR is never empty.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class ElectionResult(NamedTuple):
    """A new leader and ISR; `recovering` marks an unclean election (KIP-704); `recipients` get LeaderAndIsr."""

    leader: int
    isr: tuple[int, ...]
    recipients: tuple[int, ...]
    recovering: bool = False


def new_partition(replicas: Sequence[int], online: Collection[int]) -> ElectionResult | None:
    """Elect the first leader of a partition: the first online replica, with all online ones in the ISR."""
    live = tuple(broker for broker in replicas if broker in online)
    return ElectionResult(live[0], live, live) if live else None


def offline(
    replicas: Sequence[int], isr: Sequence[int], online: Collection[int], unclean_allowed: bool
) -> ElectionResult | None:
    """Elect an online member of the ISR for a partition whose leader is offline.

    Without one, and if unclean elections are allowed (`unclean.leader.election.enable`, or an admin's request), elect any online
    replica, which is the only member of the new ISR and may lack committed records.
    """
    live = tuple(broker for broker in replicas if broker in online)
    leader = next((broker for broker in live if broker in isr), None)
    if leader is not None:
        return ElectionResult(leader, tuple(broker for broker in isr if broker in online), live)
    if unclean_allowed and live:
        return ElectionResult(live[0], (live[0],), live, recovering=True)
    return None


def reassignment(target: Sequence[int], isr: Sequence[int], online: Collection[int]) -> ElectionResult | None:
    """Elect a leader among the target replicas; the ISR stays, with offline members, which are removed separately."""
    leader = next((broker for broker in target if broker in online and broker in isr), None)
    return None if leader is None else ElectionResult(leader, tuple(isr), tuple(target))


def elect_preferred(replicas: Sequence[int], isr: Sequence[int], online: Collection[int]) -> ElectionResult | None:
    """Elect the first replica, if it is online and in the ISR."""
    if not replicas or replicas[0] not in online or replicas[0] not in isr:
        return None
    return ElectionResult(replicas[0], tuple(isr), tuple(replicas))


def controlled_shutdown(
    replicas: Sequence[int], isr: Sequence[int], up: Collection[int], shutting_down: Collection[int]
) -> ElectionResult | None:
    """Elect a leader that is not shutting down, and take those that are out of the ISR. `up` includes brokers shutting down."""
    live = tuple(broker for broker in replicas if broker in up)
    leader = next((broker for broker in live if broker in isr and broker not in shutting_down), None)
    if leader is None:
        return None
    return ElectionResult(leader, tuple(broker for broker in isr if broker not in shutting_down), live)
