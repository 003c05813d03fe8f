"""Clients of both clusters, and what is asked of the source more than once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
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


async def make_internal_topics(target: ClusterClient, timeout_s: float) -> None:
    """Have the target make the topics of its coordinators, before it can place them at the mirror. Raises ClientError."""
    from kafkalite.client.group.coordinator_link import CoordinatorKind, find_coordinator

    for kind in CoordinatorKind:
        attempt = partial(find_coordinator, target, "kafkalite-mirror", kind)
        await target.retrying(attempt, f"making the topic of the target's {kind.noun} coordinators", timeout_s)


async def read_ends(
    source: Admin, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the high watermarks and the last stable offsets of partitions of the source. Raises ClientError."""
    found = []
    for level in ("read_uncommitted", "read_committed"):
        offsets = await source.list_offsets(dict.fromkeys(partitions, "latest"), isolation_level=level)
        found.append({place: 0 if each is None else each.offset for place, each in offsets.items()})
    return found[0], found[1]
