"""What `kafkalite cluster health` finds out: a verdict for each thing that can be wrong with a cluster. `judge` is pure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.cli.progress import Progress
from kafkalite.types import NO_BROKER

if TYPE_CHECKING:
    from kafkalite.client import Admin, ClusterDescription, TopicDescription
    from kafkalite.client.cluster.view import PartitionView

COLUMNS = ("check", "healthy", "count", "what")
CHECKS = (
    "controller",
    "brokers",
    "offline partitions",
    "under-replicated partitions",
    "partitions under min.insync.replicas",
)
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check: what is not as it should be."""

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


async def look(admin: Admin) -> list[Verdict]:
    """Ask the cluster and judge."""
    from kafkalite.client import ConfigResource

    topics = await admin.describe_topics()
    resources = [ConfigResource("topic", topic.name) for topic in topics]
    settings = await admin.describe_resource_configs(resources, keys=["min.insync.replicas"])
    minimums = {
        resource.name: int(entry.value or 1) for resource, entries in settings.items() for entry in entries.values()
    }
    return judge(await admin.describe_cluster(), topics, minimums)


async def wait_until_healthy(
    looking: Callable[[], Coroutine[Any, Any, list[Verdict]]], timeout_s: float
) -> list[Verdict]:
    """Look until all is well or the time is up; the last verdicts, or the last error when nobody answered."""
    from kafkalite.client.errors import ClientError

    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    with Progress("healthy checks", len(CHECKS)) if timeout_s else nullcontext() as progress:
        while True:
            try:
                verdicts = await looking()
                if progress is not None:
                    progress.update(sum(each.healthy for each in verdicts))
                if all(each.healthy for each in verdicts) or loop.time() >= deadline_s:
                    return verdicts
            except ClientError:
                if loop.time() >= deadline_s:
                    raise
            await asyncio.sleep(_POLL_S)


def judge(
    cluster: ClusterDescription, topics: Sequence[TopicDescription], min_insync_replicas: Mapping[str, int]
) -> list[Verdict]:
    """A verdict for each check: is there a controller, do all brokers live, has every partition a leader and all its replicas?"""
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


def table_row(verdict: Verdict, shown: int = 5) -> dict[str, Any]:
    """For people: the first problems in words."""
    more = len(verdict.problems) - shown
    what = [*verdict.problems[:shown], f"and {more} more"] if more > 0 else list(verdict.problems)
    return {**verdict.to_dict(), "what": ", ".join(what) or None}
