"""Administration: topics, records, settings, quotas, log directories, partitions and groups, each in `<noun>_admin`.

Every call is typed; answers are frozen, with `.to_dict()`. Calls that only a controller serves are sent to it, and again to the next
one when it has moved. A call over several items raises the error of the first that failed after all were tried; `error.failures` of an
`AdminError` has them all.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from kafkalite.client.cluster_client import ClusterClient, Opener
from kafkalite.client.config_admin import ConfigAdmin
from kafkalite.client.config_admin import ConfigChange as ConfigChange
from kafkalite.client.config_admin import ConfigEntry as ConfigEntry
from kafkalite.client.config_admin import ConfigResource as ConfigResource
from kafkalite.client.config_admin import ConfigSynonym as ConfigSynonym
from kafkalite.client.credential_admin import CredentialAdmin
from kafkalite.client.credential_admin import ScramCredentialInfo as ScramCredentialInfo
from kafkalite.client.credential_admin import ScramDeletion as ScramDeletion
from kafkalite.client.credential_admin import ScramUpsertion as ScramUpsertion
from kafkalite.client.errors import AdminError as AdminError
from kafkalite.client.group_admin import GroupAdmin
from kafkalite.client.group_admin import GroupDescription as GroupDescription
from kafkalite.client.group_admin import GroupListing as GroupListing
from kafkalite.client.group_admin import GroupMember as GroupMember
from kafkalite.client.log_dir_admin import LogDir as LogDir
from kafkalite.client.log_dir_admin import LogDirAdmin
from kafkalite.client.log_dir_admin import LogDirReplica as LogDirReplica
from kafkalite.client.log_dir_admin import Replica as Replica
from kafkalite.client.options import options_from_config
from kafkalite.client.partition_admin import NewPartitions as NewPartitions
from kafkalite.client.partition_admin import PartitionAdmin
from kafkalite.client.partition_admin import PartitionReassignment as PartitionReassignment
from kafkalite.client.quota_admin import ClientQuota as ClientQuota
from kafkalite.client.quota_admin import QuotaAdmin
from kafkalite.client.quota_admin import QuotaEntity as QuotaEntity
from kafkalite.client.quota_admin import QuotaFilter as QuotaFilter
from kafkalite.client.record_admin import DeletedRecords as DeletedRecords
from kafkalite.client.record_admin import RecordAdmin
from kafkalite.client.retry import RetryPolicy
from kafkalite.client.topic_admin import ClusterDescription as ClusterDescription
from kafkalite.client.topic_admin import CreatedTopic as CreatedTopic
from kafkalite.client.topic_admin import NewTopic as NewTopic
from kafkalite.client.topic_admin import TopicAdmin
from kafkalite.client.topic_admin import TopicDescription as TopicDescription


class Admin(TopicAdmin, RecordAdmin, ConfigAdmin, QuotaAdmin, CredentialAdmin, LogDirAdmin, PartitionAdmin, GroupAdmin):
    """Administrative calls. Use it as `async with Admin(bootstrap_servers=…) as admin`, or `connect` and `close` it.

    `request_timeout_ms` bounds one request, `default_api_timeout_ms` a whole call with its retries.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        client_id: str | None = "kafkalite-admin",
        request_timeout_ms: int = 30_000,
        default_api_timeout_ms: int = 60_000,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1000,
        metadata_max_age_ms: int = 300_000,
        security_protocol: str = "PLAINTEXT",
        ssl_context: ssl.SSLContext | None = None,
        opener: Opener | None = None,
        chance: Callable[[], float] | None = None,
    ) -> None:
        cluster = ClusterClient(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            retry=RetryPolicy(retry_backoff_ms, retry_backoff_max_ms),
            security_protocol=security_protocol,
            ssl_context=ssl_context,
            opener=opener,
            chance=chance,
        )
        super().__init__(cluster, request_timeout_ms, default_api_timeout_ms)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **options: Any) -> Self:
        """An admin client from Java's dotted names, `{"bootstrap.servers": …}`; `options` are keyword arguments."""
        return cls(**{**options_from_config(cls, config), **options})

    async def connect(self, timeout: float = 10.0) -> None:
        """Reach the cluster within `timeout` seconds. NoBrokersAvailableError names, per bootstrap server, what went wrong."""
        await self._cluster.connect(timeout)

    async def close(self) -> None:
        await self._cluster.close()

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
