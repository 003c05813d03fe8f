"""The release of Apache Kafka whose protocol a broker speaks, from its answer to ApiVersions, which does not name it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkalite.protocol.apis import ApiKey


class Release(NamedTuple):
    """The first two numbers of a release, from 1.0 on; before that (0, 11)."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


_BEGINNINGS: Final = (
    (Release(4, 1), ApiKey.FETCH, 18),
    (Release(4, 0), ApiKey.PRODUCE, 12),
    (Release(3, 9), ApiKey.FETCH, 17),
    (Release(3, 8), ApiKey.PRODUCE, 11),
    (Release(3, 7), ApiKey.FETCH, 16),
    (Release(3, 6), ApiKey.ADD_PARTITIONS_TO_TXN, 4),
    (Release(3, 5), ApiKey.FETCH, 15),
    (Release(3, 4), ApiKey.LEADER_AND_ISR, 7),
    (Release(3, 3), ApiKey.DESCRIBE_ACLS, 3),
    (Release(3, 2), ApiKey.JOIN_GROUP, 9),
    (Release(3, 1), ApiKey.FETCH, 13),
    (Release(3, 0), ApiKey.LIST_OFFSETS, 7),
    (Release(2, 8), ApiKey.PRODUCE, 9),
    (Release(2, 7), ApiKey.FETCH, 12),
    (Release(2, 6), ApiKey.LIST_GROUPS, 4),
    (Release(2, 5), ApiKey.JOIN_GROUP, 7),
    (Release(2, 4), ApiKey.PRODUCE, 8),
    (Release(2, 3), ApiKey.FETCH, 11),
    (Release(2, 2), ApiKey.LIST_OFFSETS, 5),
    (Release(2, 1), ApiKey.FETCH, 10),
    (Release(2, 0), ApiKey.FETCH, 8),
    (Release(1, 1), ApiKey.FETCH, 7),
    (Release(1, 0), ApiKey.METADATA, 5),
    (Release(0, 11), ApiKey.METADATA, 4),
)
"""The newest release first, each with the version of an API that no earlier release has."""


def find_release(versions: Mapping[int, tuple[int, int]]) -> Release | None:
    """Return the newest release whose protocol a broker with these lowest and highest versions, by API, speaks; None before 0.11."""
    return next((release for release, api, version in _BEGINNINGS if versions.get(api, (0, -1))[1] >= version), None)
