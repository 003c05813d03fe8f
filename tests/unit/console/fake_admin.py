"""A cluster as the console's admin client tells of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from kafkalite.client import (
    BrokerNode,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    GroupMember,
    LogDir,
    LogDirReplica,
    NewTopic,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionReassignment,
    PartitionView,
    ProducerState,
    RecordMetadata,
    ScramCredentialInfo,
    TopicDescription,
    TransactionDescription,
    TransactionListing,
)
from kafkalite.client.errors import AdminError, error_of
from kafkalite.security.acl import AclBinding, AclFilter
from kafkalite.types import TopicPartition

SECRET = "the-secret-of-a-setting"


class FakeAdmin:
    """Brokers 1 and 2; `topics` have partitions led by broker 1. What was asked to be changed is in `committed` and `written`."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.alive = [1, 2]
        self.topics = {name: [(1, 0, (1, 2))] * count for name, count in topics.items()}
        """By number: leader, leader epoch, ISR."""
        self.topic_ids: dict[str, str] = {}
        """Ids of topics that were made again."""
        self.ends = {TopicPartition(name, number): 100 for name, count in topics.items() for number in range(count)}
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.members: dict[str, tuple[GroupMember, ...]] = {}
        self.moves: dict[TopicPartition, PartitionReassignment] = {}
        self.written: list[tuple[str, dict[str, Any]]] = []
        self.is_away = self.refuses_configs = False
        self.acls: list[AclBinding] | None = None
        """None where brokers have no authorizer."""
        self.credentials: dict[str, list[str]] = {}
        """Mechanisms by user."""
        self.changed: list[tuple[str, Any]] = []
        """What was asked to be changed, not only to be validated, by the names of the calls."""
        self.cleanup_policy = "delete"
        self.transactions: list[TransactionDescription] = []
        self.open_producer_state = ProducerState(77, 3, -1, 0, 5, 40)

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
                self.topic_ids.get(name, "id"),
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
        if (keys := _.get("keys")) and keys != [entry.name]:
            found = await self.describe_configs("topic", "")
            return {each: {key: found[key] for key in keys if key in found} for each in resources}
        return {each: {entry.name: entry} for each in resources}

    async def describe_configs(self, kind: str, name: str, **_: Any) -> dict[str, ConfigEntry]:
        self._refuse_configs()
        if _.get("keys") == ["cleanup.policy"]:
            policy = ConfigEntry("cleanup.policy", self.cleanup_policy, "DEFAULT_CONFIG", False, False)
            return {policy.name: policy}
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

    async def describe_acls(self) -> list[AclBinding]:
        if self.acls is None:
            raise error_of(54, "describing ACLs", "No Authorizer is configured.")
        return self.acls

    async def describe_user_scram_credentials(
        self, users: Iterable[str] = ()
    ) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        wanted = list(users) or list(self.credentials)
        return {
            user: tuple(ScramCredentialInfo(each, 4096) for each in self.credentials[user])
            for user in wanted
            if user in self.credentials
        }

    # changes

    async def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        wanted = list(topics)
        for each in wanted:
            if each.name in self.topics:
                raise AdminError({each.name: error_of(36, f"creating topic {each.name}")})
        if not validate_only:
            self.changed.append(("create_topics", wanted))
            self.topics |= {each.name: [(1, 0, (1, 2))] * max(1, each.num_partitions) for each in wanted}
        return [CreatedTopic(each.name, "", max(1, each.num_partitions), 2) for each in wanted]

    async def delete_topics(self, names: Iterable[str]) -> None:
        for name in names:
            del self.topics[name]
            self.changed.append(("delete_topics", name))

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.changed.append(("delete_records", dict(offsets)))

    async def create_partitions(self, wanted: Mapping[str, int], *, validate_only: bool = False) -> None:
        if not validate_only:
            self.changed.append(("create_partitions", dict(wanted)))

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        for resource, wanted in changes.items():
            for each in wanted:
                if each.value == "nonsense":
                    raise AdminError(
                        {str(resource): error_of(40, f"settings of {resource}", f"{each.name} is no number")}
                    )
        if not validate_only:
            self.changed.append(("incremental_alter_configs", {key: list(each) for key, each in changes.items()}))

    async def delete_groups(self, groups: Iterable[str]) -> None:
        for each in groups:
            del self.committed[each]
            self.changed.append(("delete_groups", each))

    async def alter_partition_reassignments(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        self.changed.append(("alter_partition_reassignments", dict(targets)))

    async def elect_leaders(self, kind: str, partitions: Iterable[TopicPartition]) -> None:
        self.changed.append(("elect_leaders", (kind, list(partitions))))

    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        self.changed.append(("create_acls", list(bindings)))

    async def delete_acls(self, filters: Iterable[AclFilter]) -> None:
        self.changed.append(("delete_acls", list(filters)))

    async def alter_user_scram_credentials(self, changes: Iterable[Any]) -> None:
        self.changed.append(("alter_user_scram_credentials", list(changes)))

    async def list_transactions(self, states: Iterable[str] = ()) -> list[TransactionListing]:
        wanted = set(states)
        return [
            TransactionListing(each.transactional_id, each.producer_id, each.state, each.coordinator)
            for each in self.transactions
            if not wanted or each.state in wanted
        ]

    async def describe_transactions(self, ids: Iterable[str]) -> dict[str, TransactionDescription]:
        wanted = set(ids)
        return {each.transactional_id: each for each in self.transactions if each.transactional_id in wanted}

    async def describe_producers(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        return dict.fromkeys(places, (self.open_producer_state,))

    async def abort_transaction(self, place: TopicPartition, producer: ProducerState) -> None:
        self.changed.append(("abort_transaction", (place, producer)))

    async def describe_client_quotas(self) -> list[Any]:
        return []

    @asynccontextmanager
    async def open_producer(self) -> AsyncIterator[FakeAdmin]:
        yield self

    async def send_and_wait(self, topic: str, value: bytes | None, **record: Any) -> RecordMetadata:
        self.written.append((topic, {"value": value, **record}))
        return RecordMetadata(topic, 0, 7, -1, 0)
