"""Which request version a broker sends to its peers: its own inter.broker.protocol.version decides, not negotiation.

Connections between brokers do not exchange ApiVersions (but for those to the controller), so a sender must not be newer than the
oldest peer. The table restates Kafka's `MetadataVersion`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple


class InterBrokerVersions(NamedTuple):
    """Versions of the requests that go from broker to broker."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int
    controlled_shutdown: int
    fetch: int
    offset_for_leader_epoch: int
    list_offsets: int


_TABLE: list[tuple[tuple[int, int, int], InterBrokerVersions]] = [
    ((2, 4, 1), InterBrokerVersions(4, 6, 2, 3, 11, 3, 5)),
    ((2, 6, 0), InterBrokerVersions(4, 6, 3, 3, 11, 3, 5)),
    ((2, 7, 1), InterBrokerVersions(4, 6, 3, 3, 12, 3, 5)),
    ((2, 8, 0), InterBrokerVersions(4, 6, 3, 3, 12, 4, 6)),
    ((2, 8, 1), InterBrokerVersions(5, 7, 3, 3, 12, 4, 6)),
    ((3, 0, 1), InterBrokerVersions(5, 7, 3, 3, 12, 4, 7)),
    ((3, 1, 0), InterBrokerVersions(5, 7, 3, 3, 13, 4, 7)),
    ((3, 2, 0), InterBrokerVersions(6, 7, 3, 3, 13, 4, 7)),
    ((3, 4, 0), InterBrokerVersions(7, 8, 4, 3, 13, 4, 7)),
    ((3, 5, 0), InterBrokerVersions(7, 8, 4, 3, 14, 4, 8)),
    ((3, 5, 1), InterBrokerVersions(7, 8, 4, 3, 15, 4, 8)),
    ((3, 7, 4), InterBrokerVersions(7, 8, 4, 3, 16, 4, 8)),
    ((3, 9, 0), InterBrokerVersions(7, 8, 4, 3, 17, 4, 9)),
]

_LAST_STAGE = 99
"""A release without "-IV" means its last stage."""


def parse_version(text: str) -> tuple[int, int, int]:
    """(major, minor, stage) of `3.9`, `2.8-IV1`, `3.9.1`. ValueError names a text that is no version."""
    release, _, stage = text.partition("-IV")
    numbers = release.split(".")
    try:
        return int(numbers[0]), int(numbers[1]), int(stage) if stage else _LAST_STAGE
    except (ValueError, IndexError):
        raise ValueError(
            f"inter.broker.protocol.version {text!r} is not a release such as 3.9 or 2.8-IV1"
        ) from None


def inter_broker_versions(text: str) -> InterBrokerVersions:
    """Versions for an inter.broker.protocol.version. ValueError below 2.4, which this broker does not speak."""
    version = parse_version(text)
    index = bisect_right([from_ for from_, _ in _TABLE], version)
    if index == 0:
        raise ValueError(f"inter.broker.protocol.version {text} is older than 2.4-IV1, the oldest that is spoken")
    return _TABLE[index - 1][1]


def uses_alter_partition(text: str) -> bool:
    """Does the leader ask the controller for ISR changes (2.7-IV2 and newer) instead of writing ZooKeeper itself?"""
    return parse_version(text) >= (2, 7, 2)


def allocates_producer_ids(text: str) -> bool:
    """Does a broker ask the controller for producer ids (3.0-IV0 and newer) instead of ZooKeeper?"""
    return parse_version(text) >= (3, 0, 0)
