"""A cluster as the console's admin client tells of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from kafkalite.client import (
    BrokerNode,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    GroupDescription,
    GroupListing,
    GroupMember,
    LogDir,
    LogDirReplica,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionReassignment,
    PartitionView,
    RecordMetadata,
    TopicDescription,
)
from kafkalite.client.errors import error_of
from kafkalite.types import TopicPartition

SECRET = "the-secret-of-a-setting"


class FakeAdmin:
    """Brokers 1 and 2; `topics` have partitions led by broker 1. What was asked to be changed is in `committed` and `written`."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.alive = [1, 2]
        self.topics = {name: [(1, 0, (1, 2))] * count for name, count in topics.items()}
        """By number: leader, leader epoch, ISR."""
        self.ends = {TopicPartition(name, number): 100 for name, count in topics.items() for number in range(count)}
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.members: dict[str, tuple[GroupMember, ...]] = {}
        self.moves: dict[TopicPartition, PartitionReassignment] = {}
        self.written: list[tuple[str, dict[str, Any]]] = []
        self.is_away = self.refuses_configs = False

    def _refuse_configs(self) -> None:
        if self.refuses_configs:
            raise error_of(29, "describing settings")

    async def describe_cluster(self) -> ClusterDescription:
        if self.is_away:
            raise error_of(13, "describing the cluster")
        return ClusterDescription(
            "the-cluster", self.alive[0], tuple(BrokerNode(each, "h", 9000 + each) for each in self.alive)
        )

    async def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        wanted = sorted(self.topics) if names is None else list(names)
        if unknown := set(wanted) - set(self.topics):
            raise error_of(3, f"topic {min(unknown)}")
        return [
            TopicDescription(
                name,
                "id",
                name.startswith("__"),
                tuple(
                    PartitionView(name, number, leader, epoch, (1, 2), isr)
                    for number, (leader, epoch, isr) in enumerate(self.topics[name])
                ),
            )
            for name in wanted
        ]

    async def describe_topics_at(self, _: None, names: Iterable[str]) -> dict[str, TopicDescription]:
        return {each.name: each for each in await self.describe_topics(set(names) & set(self.topics))}

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int | str],
        described: Mapping[str, TopicDescription] | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        found = {"earliest": lambda _: 10, "latest": self.ends.__getitem__}
        return {each: OffsetAndTimestamp(found.get(asked, lambda _: 50)(each), -1) for each, asked in wanted.items()}  # type: ignore[arg-type, no-untyped-call]

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[int, tuple[LogDir, ...]]:
        wanted = list(self.ends if partitions is None else partitions)
        return {
            broker: (
                LogDir(
                    broker, "/d", None, -1, -1, tuple(LogDirReplica(each, 1000 // broker, 0, False) for each in wanted)
                ),
            )
            for broker in (self.alive if brokers is None else brokers)
        }

    async def describe_resource_configs(
        self, resources: Iterable[ConfigResource], **_: Any
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        self._refuse_configs()
        entry = ConfigEntry("min.insync.replicas", "1", "DEFAULT_CONFIG", False, False)
        return {each: {entry.name: entry} for each in resources}

    async def describe_configs(self, kind: str, name: str, **_: Any) -> dict[str, ConfigEntry]:
        self._refuse_configs()
        set_here = ConfigSynonym("retention.ms", "5", "DYNAMIC_TOPIC_CONFIG")
        return {
            "a.default": ConfigEntry("a.default", "1", "DEFAULT_CONFIG", False, False),
            "retention.ms": ConfigEntry("retention.ms", "5", "DYNAMIC_TOPIC_CONFIG", False, False, None, (set_here,)),
            "ssl.key": ConfigEntry(
                "ssl.key",
                SECRET,
                "STATIC_BROKER_CONFIG",
                True,
                True,
                None,
                (ConfigSynonym("ssl.key", SECRET, "STATIC_BROKER_CONFIG"),),
            ),
        }

    async def list_groups(self) -> list[GroupListing]:
        return [GroupListing(group, "Empty", "consumer", 1) for group in sorted(self.committed)]

    async def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        return {
            each: GroupDescription(
                each, "Empty" if each in self.committed else "Dead", "consumer", "", 1, self.members.get(each, ())
            )
            for each in groups
        }

    async def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        return {place: OffsetAndMetadata(offset) for place, offset in self.committed.get(group, {}).items()}

    async def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.committed[group] |= offsets

    async def list_partition_reassignments(self) -> dict[TopicPartition, PartitionReassignment]:
        return self.moves

    async def describe_acls(self) -> list[Any]:
        raise error_of(54, "describing ACLs", "No Authorizer is configured.")

    async def describe_user_scram_credentials(self) -> dict[str, Any]:
        return {}

    async def describe_client_quotas(self) -> list[Any]:
        return []

    @asynccontextmanager
    async def open_producer(self) -> AsyncIterator[FakeAdmin]:
        yield self

    async def send_and_wait(self, topic: str, value: bytes | None, **record: Any) -> RecordMetadata:
        self.written.append((topic, {"value": value, **record}))
        return RecordMetadata(topic, 0, 7, -1, 0)
