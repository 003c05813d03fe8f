"""inter.broker.protocol.version: what a broker may send to its peers, and what the cluster as a whole does.

Connections between brokers do not exchange ApiVersions (but for those to the controller, and a follower's before 2.1-IV2), so the sender's
own setting decides, and must not be newer than the oldest peer. The table restates Kafka's `MetadataVersion`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from kafkalite.protocol.apis import ApiKey

_LAST_STEP = 99


class InterBrokerVersions(NamedTuple):
    """Versions of the requests that go from broker to broker; -1 where the release does not have the request."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int
    fetch: int
    offset_for_leader_epoch: int
    list_offsets: int
    write_txn_markers: int

    @property
    def fence_followers(self) -> bool:
        """True if a follower names its leader epoch in all that it asks its leader (KIP-320), which may be another's by then.

        Without it, a leader that lost its session and leads again takes a follower that has not heard of either for one in sync.
        """
        return self.fetch >= 9

    def raised_to_fence(self, spoken: Mapping[int, tuple[int, int]]) -> InterBrokerVersions:
        """Return these versions, or with the first that fence followers if the leader speaks those.

        `spoken` has the lowest and highest version of each API.
        """
        raised = {ApiKey.FETCH: 10, ApiKey.OFFSET_FOR_LEADER_EPOCH: 2, ApiKey.LIST_OFFSETS: 4}
        if self.fence_followers or any(spoken.get(key, (0, -1))[1] < version for key, version in raised.items()):
            return self
        return self._replace(**{key.name.lower(): version for key, version in raised.items()})


class _Release(NamedTuple):
    major: int
    minor: int
    step: int = _LAST_STEP


class ProtocolVersion(_Release):
    """An inter.broker.protocol.version; "2.8" alone means its last intermediate step."""

    @classmethod
    def parse(cls, text: str) -> ProtocolVersion:
        """Parse a version such as "2.7-IV2", "3.9" or "0.10.2". Raises ValueError for other forms."""
        match = re.fullmatch(r"(0\.)?(\d+)\.(\d+)(?:\.\d+)?(?:-IV(\d+))?", text.strip())
        if match is None:
            raise ValueError(f"inter.broker.protocol.version {text!r} has no form like 3.9 or 2.7-IV2")
        old, major, minor, step = match.groups()
        last = _LAST_STEP if step is None else int(step)
        return cls(0, int(major), last) if old else cls(int(major), int(minor), last)

    @cached_property
    def requests(self) -> InterBrokerVersions:
        """Return the versions of requests to other brokers."""
        return next(versions for since, versions in _TABLE if self >= since)

    @property
    def has_prefixed_acls(self) -> bool:
        """True if all brokers obey ACLs of prefixes (KIP-290)."""
        return self >= (2, 0, 1)

    @property
    def manages_features(self) -> bool:
        """True if /feature is managed (KIP-584)."""
        return self >= (2, 7, 0)

    @property
    def alters_partitions(self) -> bool:
        """True if leaders ask the controller for ISR changes (KIP-497) instead of writing them to ZooKeeper."""
        return self >= (2, 7, 2)

    @property
    def gives_topic_ids(self) -> bool:
        """True if topics have ids (KIP-516)."""
        return self >= (2, 8, 0)

    @property
    def allocates_producer_ids(self) -> bool:
        """True if brokers ask the controller for producer ids instead of ZooKeeper (KIP-730)."""
        return self >= (3, 0, 0)

    @property
    def marks_recovering_leaders(self) -> bool:
        """True if an unclean leader is marked as RECOVERING (KIP-704)."""
        return self >= (3, 2, 0)


_TABLE: tuple[tuple[_Release, InterBrokerVersions], ...] = (
    (_Release(3, 9, 0), InterBrokerVersions(7, 8, 4, 17, 4, 9, 1)),
    (_Release(3, 7, 4), InterBrokerVersions(7, 8, 4, 16, 4, 8, 1)),
    (_Release(3, 5, 1), InterBrokerVersions(7, 8, 4, 15, 4, 8, 1)),
    (_Release(3, 5, 0), InterBrokerVersions(7, 8, 4, 14, 4, 8, 1)),
    (_Release(3, 4, 0), InterBrokerVersions(7, 8, 4, 13, 4, 7, 1)),
    (_Release(3, 2, 0), InterBrokerVersions(6, 7, 3, 13, 4, 7, 1)),
    (_Release(3, 1, 0), InterBrokerVersions(5, 7, 3, 13, 4, 7, 1)),
    (_Release(3, 0, 1), InterBrokerVersions(5, 7, 3, 12, 4, 7, 1)),
    (_Release(2, 8, 1), InterBrokerVersions(5, 7, 3, 12, 4, 6, 1)),
    (_Release(2, 8, 0), InterBrokerVersions(4, 6, 3, 12, 4, 6, 1)),
    (_Release(2, 7, 1), InterBrokerVersions(4, 6, 3, 12, 3, 5, 0)),
    (_Release(2, 6, 0), InterBrokerVersions(4, 6, 3, 11, 3, 5, 0)),
    (_Release(2, 4, 1), InterBrokerVersions(4, 6, 2, 11, 3, 5, 0)),
    (_Release(2, 4, 0), InterBrokerVersions(3, 5, 1, 11, 3, 5, 0)),
    (_Release(2, 3, 1), InterBrokerVersions(2, 5, 1, 11, 3, 5, 0)),
    (_Release(2, 2, 1), InterBrokerVersions(2, 5, 1, 10, 2, 5, 0)),
    (_Release(2, 2, 0), InterBrokerVersions(2, 5, 1, 10, 2, 4, 0)),
    (_Release(2, 1, 2), InterBrokerVersions(1, 4, 0, 10, 2, 4, 0)),
    (_Release(2, 1, 1), InterBrokerVersions(1, 4, 0, 8, 2, 4, 0)),
    (_Release(2, 0, 1), InterBrokerVersions(1, 4, 0, 8, 1, 3, 0)),
    (_Release(2, 0, 0), InterBrokerVersions(1, 4, 0, 7, 1, 2, 0)),
    (_Release(1, 1, 0), InterBrokerVersions(1, 4, 0, 7, 0, 2, 0)),
    (_Release(1, 0, 0), InterBrokerVersions(1, 4, 0, 5, 0, 2, 0)),
    (_Release(0, 0, 0), InterBrokerVersions(0, 3, 0, 3, -1, 1, 0)),
)
