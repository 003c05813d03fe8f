"""The health of a cluster: a verdict for each check. `judge` is pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.types import NO_BROKER

if TYPE_CHECKING:
    from kafkalite.client import Admin, ClusterDescription, TopicDescription
    from kafkalite.client.cluster.view import PartitionView

CHECKS = (
    "controller",
    "brokers",
    "offline partitions",
    "under-replicated partitions",
    "partitions under min.insync.replicas",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check and the problems that it found."""

    check: str
    problems: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "healthy": self.healthy,
            "count": len(self.problems),
            "problems": list(self.problems),
        }


async def check_cluster(admin: Admin) -> list[Verdict]:
    """Ask the cluster and judge."""
    topics = await admin.describe_topics()
    minimums = await min_insync_replicas(admin, [topic.name for topic in topics])
    return judge(await admin.describe_cluster(), topics, minimums)


async def min_insync_replicas(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """Return min.insync.replicas of each of these topics."""
    from kafkalite.client import ConfigResource

    resources = [ConfigResource("topic", topic) for topic in topics]
    settings = await admin.describe_resource_configs(resources, keys=["min.insync.replicas"])
    return {
        resource.name: int(entry.value or 1) for resource, entries in settings.items() for entry in entries.values()
    }


def judge(
    cluster: ClusterDescription, topics: Sequence[TopicDescription], min_insync_replicas: Mapping[str, int]
) -> list[Verdict]:
    """Return a verdict for each check: there is a controller, all brokers are up, every partition has a leader and all its replicas in
    sync.
    """
    alive = {broker.id for broker in cluster.brokers}
    partitions = [(topic.name, each) for topic in topics for each in topic.partitions]
    absent = sorted({broker for _, each in partitions for broker in each.replicas} - alive)
    below_minimum = [
        (topic, each)
        for topic, each in partitions
        if each.leader != NO_BROKER and len(each.isr) < min(min_insync_replicas.get(topic, 1), len(each.replicas))
    ]
    problems = (
        () if cluster.controller_id in alive else ("there is no controller",),
        tuple(f"broker {broker} is not there" for broker in absent),
        _names((topic, each) for topic, each in partitions if each.leader == NO_BROKER),
        _names((topic, each) for topic, each in partitions if each.under_replicated),
        _names(below_minimum),
    )
    return [Verdict(check, found) for check, found in zip(CHECKS, problems, strict=True)]


def _names(partitions: Iterable[tuple[str, PartitionView]]) -> tuple[str, ...]:
    return tuple(f"{topic}-{each.partition}" for topic, each in partitions)
