"""`Admin` for programs without asyncio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, Unpack

from kafkalite.client.admin.admin import Admin
from kafkalite.client.admin.configs import ConfigChange, ConfigEntry, ConfigResource
from kafkalite.client.admin.credentials import ScramCredentialInfo, ScramDeletion, ScramUpsertion
from kafkalite.client.admin.groups import GroupDescription, GroupListing
from kafkalite.client.admin.log_dirs import LogDir, TopicPartitionReplica
from kafkalite.client.admin.partitions import NewPartitions, PartitionReassignment
from kafkalite.client.admin.quotas import ClientQuota, QuotaEntity, QuotaFilter
from kafkalite.client.admin.records import DeletedRecords
from kafkalite.client.admin.topics import ClusterDescription, CreatedTopic, NewTopic, TopicDescription
from kafkalite.client.admin.transactions import (
    LONGEST_TRANSACTION_MS,
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from kafkalite.client.blocking.client import BlockingClient
from kafkalite.client.group.committable import Committable
from kafkalite.client.options import AdminKeywords, AdminOptions, options_from_config, shows
from kafkalite.client.producer.transaction_state import PreparedTransaction
from kafkalite.client.records import OffsetAndMetadata, OffsetAndTimestamp
from kafkalite.clock import Clock
from kafkalite.security.acl import AclBinding, AclFilter
from kafkalite.types import TopicPartition


class SyncAdmin(BlockingClient[Admin], twin=Admin):
    """`Admin` for programs without asyncio.

    `options` are the fields of `AdminOptions`, by keyword.
    """

    @shows(AdminOptions)
    def __init__(self, **options: Unpack[AdminKeywords]) -> None:
        core = Admin(**options)
        super().__init__(core)
        self.options = core.options

    @classmethod
    @shows(AdminOptions)
    def from_config(cls, config: Mapping[str, Any], **options: Unpack[AdminKeywords]) -> Self:
        """An admin client from Java's dotted names, `{"bootstrap.servers": …}`; `options` are keyword arguments.

        ValueError for a name that is no option, and for text that does not fit.
        """
        return cls(**{**options_from_config(AdminOptions, config), **options})

    def describe_acls(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        return self._running().call(self._core.describe_acls(wanted))

    def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        self._running().call(self._core.create_acls(bindings))

    def delete_acls(self, filters: Sequence[AclFilter]) -> list[AclBinding]:
        return self._running().call(self._core.delete_acls(filters))

    def create_topics(
        self, new_topics: Iterable[NewTopic], *, timeout_ms: int | None = None, validate_only: bool = False
    ) -> list[CreatedTopic]:
        calling = self._core.create_topics(new_topics, timeout_ms=timeout_ms, validate_only=validate_only)
        return self._running().call(calling)

    def delete_topics(self, topics: Iterable[str], *, timeout_ms: int | None = None) -> None:
        self._running().call(self._core.delete_topics(topics, timeout_ms=timeout_ms))

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        return self._running().call(self._core.list_topics(include_internal=include_internal))

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[TopicDescription]:
        return self._running().call(self._core.describe_topics(topics))

    def describe_topics_at(self, broker: int | None, topics: Iterable[str]) -> dict[str, TopicDescription]:
        return self._running().call(self._core.describe_topics_at(broker, topics))

    def create_partitions(
        self,
        new_partitions: Mapping[str, NewPartitions | int],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        calling = self._core.create_partitions(new_partitions, validate_only=validate_only, timeout_ms=timeout_ms)
        self._running().call(calling)

    def elect_leaders(
        self,
        election_type: str = "preferred",
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, bool]:
        return self._running().call(self._core.elect_leaders(election_type, partitions, timeout_ms=timeout_ms))

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: int | None = None
    ) -> None:
        self._running().call(self._core.alter_partition_reassignments(targets, timeout_ms=timeout_ms))

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        return self._running().call(self._core.list_partition_reassignments(partitions, timeout_ms=timeout_ms))

    def list_groups(self, states: Iterable[str] = ()) -> list[GroupListing]:
        return self._running().call(self._core.list_groups(states))

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        return self._running().call(self._core.describe_groups(group_ids))

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        calling = self._core.list_group_offsets(group_id, partitions, require_stable=require_stable)
        return self._running().call(calling)

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]) -> None:
        self._running().call(self._core.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        self._running().call(self._core.delete_group_offsets(group_id, partitions))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        self._running().call(self._core.delete_groups(group_ids))

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> list[DeletedRecords]:
        return self._running().call(self._core.delete_records(offsets))

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int | str],
        *,
        isolation_level: str = "read_uncommitted",
        described: Mapping[str, TopicDescription] | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._running().call(
            self._core.list_offsets(wanted, isolation_level=isolation_level, described=described)
        )

    def describe_cluster(self) -> ClusterDescription:
        return self._running().call(self._core.describe_cluster())

    def describe_configs(
        self,
        resource_type: str,
        name: str,
        *,
        keys: Sequence[str] | None = None,
        documentation: bool = False,
        synonyms: bool = False,
    ) -> dict[str, ConfigEntry]:
        calling = self._core.describe_configs(
            resource_type, name, keys=keys, documentation=documentation, synonyms=synonyms
        )
        return self._running().call(calling)

    def describe_resource_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        documentation: bool = False,
        synonyms: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        calling = self._core.describe_resource_configs(
            resources, keys=keys, documentation=documentation, synonyms=synonyms
        )
        return self._running().call(calling)

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        self._running().call(self._core.incremental_alter_configs(changes, validate_only=validate_only))

    def describe_client_quotas(self, filters: Iterable[QuotaFilter] = (), *, strict: bool = False) -> list[ClientQuota]:
        return self._running().call(self._core.describe_client_quotas(filters, strict=strict))

    def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        self._running().call(self._core.alter_client_quotas(changes, validate_only=validate_only))

    def describe_user_scram_credentials(self, users: Iterable[str] = ()) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        return self._running().call(self._core.describe_user_scram_credentials(users))

    def alter_user_scram_credentials(self, changes: Iterable[ScramUpsertion | ScramDeletion]) -> None:
        self._running().call(self._core.alter_user_scram_credentials(changes))

    def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[int, tuple[LogDir, ...]]:
        return self._running().call(self._core.describe_log_dirs(brokers, partitions))

    def alter_replica_log_dirs(self, targets: Mapping[TopicPartitionReplica, str]) -> None:
        self._running().call(self._core.alter_replica_log_dirs(targets))

    def list_transactions(
        self, states: Iterable[str] = (), producer_ids: Iterable[int] = (), *, duration_ms: int | None = None
    ) -> list[TransactionListing]:
        return self._running().call(self._core.list_transactions(states, producer_ids, duration_ms=duration_ms))

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        return self._running().call(self._core.describe_transactions(transactional_ids))

    def describe_producers(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], *, broker: int | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        return self._running().call(self._core.describe_producers(partitions, broker=broker))

    def abort_transaction(self, partition: TopicPartition | tuple[str, int], producer: ProducerState) -> None:
        self._running().call(self._core.abort_transaction(partition, producer))

    def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition | tuple[str, int]],
        *,
        broker: int | None = None,
        longest_transaction_ms: int = LONGEST_TRANSACTION_MS,
        clock: Clock | None = None,
    ) -> list[HangingTransaction]:
        calling = self._core.find_hanging_transactions(
            partitions, broker=broker, longest_transaction_ms=longest_transaction_ms, clock=clock
        )
        return self._running().call(calling)

    def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        return self._running().call(self._core.fence_producers(transactional_ids))

    def end_transaction(
        self,
        prepared: PreparedTransaction,
        *,
        commit: bool,
        offsets: Mapping[TopicPartition, Committable] | None = None,
        group_id: str | None = None,
    ) -> None:
        self._running().call(self._core.end_transaction(prepared, commit=commit, offsets=offsets, group_id=group_id))
