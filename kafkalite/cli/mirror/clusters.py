"""Clients of both clusters, and what is asked of the source more than once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.client import Admin
    from kafkalite.client.cluster.client import ClusterClient
    from kafkalite.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clients of both clusters."""

    source: Admin
    source_cluster: ClusterClient
    target: Admin
    target_cluster: ClusterClient


async def read_ends(
    source: Admin, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the high watermarks and the last stable offsets of partitions of the source. Raises ClientError."""
    found = []
    for level in ("read_uncommitted", "read_committed"):
        offsets = await source.list_offsets(dict.fromkeys(partitions, "latest"), isolation_level=level)
        found.append({place: 0 if each is None else each.offset for place, each in offsets.items()})
    return found[0], found[1]
