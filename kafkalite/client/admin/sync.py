"""`Admin` for programs without asyncio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from kafkalite.client.admin.admin import Admin
from kafkalite.client.admin.options import AdminOptions
from kafkalite.client.blocking.client import BlockingClient, blocking
from kafkalite.client.options import options_from_config, takes_options

if TYPE_CHECKING:
    from kafkalite.client.keywords import AdminKeywords


class SyncAdmin(BlockingClient[Admin], twin=Admin):
    """`Admin` for programs without asyncio.

    `options` are the fields of `AdminOptions`, by keyword.
    """

    @takes_options(AdminOptions)
    def __init__(self, **options: Unpack[AdminKeywords]) -> None:
        core = Admin(**options)
        super().__init__(core)
        self.options = core.options

    @classmethod
    @takes_options(AdminOptions)
    def from_config(cls, config: Mapping[str, Any], **options: Unpack[AdminKeywords]) -> Self:
        return cls(**{**options_from_config(AdminOptions, config), **options})

    describe_acls = blocking(Admin.describe_acls)
    create_acls = blocking(Admin.create_acls)
    delete_acls = blocking(Admin.delete_acls)
    create_topics = blocking(Admin.create_topics)
    delete_topics = blocking(Admin.delete_topics)
    list_topics = blocking(Admin.list_topics)
    describe_topics = blocking(Admin.describe_topics)
    describe_topics_at = blocking(Admin.describe_topics_at)
    create_partitions = blocking(Admin.create_partitions)
    elect_leaders = blocking(Admin.elect_leaders)
    alter_partition_reassignments = blocking(Admin.alter_partition_reassignments)
    list_partition_reassignments = blocking(Admin.list_partition_reassignments)
    list_groups = blocking(Admin.list_groups)
    describe_groups = blocking(Admin.describe_groups)
    list_group_offsets = blocking(Admin.list_group_offsets)
    alter_group_offsets = blocking(Admin.alter_group_offsets)
    delete_group_offsets = blocking(Admin.delete_group_offsets)
    delete_groups = blocking(Admin.delete_groups)
    delete_records = blocking(Admin.delete_records)
    digest_records = blocking(Admin.digest_records)
    list_offsets = blocking(Admin.list_offsets)
    describe_cluster = blocking(Admin.describe_cluster)
    describe_configs = blocking(Admin.describe_configs)
    describe_resource_configs = blocking(Admin.describe_resource_configs)
    incremental_alter_configs = blocking(Admin.incremental_alter_configs)
    describe_client_quotas = blocking(Admin.describe_client_quotas)
    alter_client_quotas = blocking(Admin.alter_client_quotas)
    describe_user_scram_credentials = blocking(Admin.describe_user_scram_credentials)
    alter_user_scram_credentials = blocking(Admin.alter_user_scram_credentials)
    describe_log_dirs = blocking(Admin.describe_log_dirs)
    alter_replica_log_dirs = blocking(Admin.alter_replica_log_dirs)
    list_transactions = blocking(Admin.list_transactions)
    describe_transactions = blocking(Admin.describe_transactions)
    describe_producers = blocking(Admin.describe_producers)
    abort_transaction = blocking(Admin.abort_transaction)
    find_hanging_transactions = blocking(Admin.find_hanging_transactions)
    fence_producers = blocking(Admin.fence_producers)
    end_transaction = blocking(Admin.end_transaction)
