"""Administration: topics, records, settings, quotas, log directories, partitions and groups, each in the module of its noun.

Every call is typed; answers are frozen, with `.to_dict()`. Calls that only a controller serves are sent to it, and again to the next
one when it has moved. A call over several items raises the error of the first that failed after all were tried; `error.failures` of an
`AdminError` has them all.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from kafkalite.client.admin.configs import ConfigAdmin
from kafkalite.client.admin.configs import ConfigChange as ConfigChange
from kafkalite.client.admin.configs import ConfigEntry as ConfigEntry
from kafkalite.client.admin.configs import ConfigResource as ConfigResource
from kafkalite.client.admin.configs import ConfigSynonym as ConfigSynonym
from kafkalite.client.admin.credentials import CredentialAdmin
from kafkalite.client.admin.credentials import ScramCredentialInfo as ScramCredentialInfo
from kafkalite.client.admin.credentials import ScramDeletion as ScramDeletion
from kafkalite.client.admin.credentials import ScramUpsertion as ScramUpsertion
from kafkalite.client.admin.groups import GroupAdmin
from kafkalite.client.admin.groups import GroupDescription as GroupDescription
from kafkalite.client.admin.groups import GroupListing as GroupListing
from kafkalite.client.admin.groups import GroupMember as GroupMember
from kafkalite.client.admin.log_dirs import LogDir as LogDir
from kafkalite.client.admin.log_dirs import LogDirAdmin
from kafkalite.client.admin.log_dirs import LogDirReplica as LogDirReplica
from kafkalite.client.admin.log_dirs import Replica as Replica
from kafkalite.client.admin.partitions import NewPartitions as NewPartitions
from kafkalite.client.admin.partitions import PartitionAdmin
from kafkalite.client.admin.partitions import PartitionReassignment as PartitionReassignment
from kafkalite.client.admin.quotas import ClientQuota as ClientQuota
from kafkalite.client.admin.quotas import QuotaAdmin
from kafkalite.client.admin.quotas import QuotaEntity as QuotaEntity
from kafkalite.client.admin.quotas import QuotaFilter as QuotaFilter
from kafkalite.client.admin.records import DeletedRecords as DeletedRecords
from kafkalite.client.admin.records import RecordAdmin
from kafkalite.client.admin.topics import ClusterDescription as ClusterDescription
from kafkalite.client.admin.topics import CreatedTopic as CreatedTopic
from kafkalite.client.admin.topics import NewTopic as NewTopic
from kafkalite.client.admin.topics import TopicAdmin
from kafkalite.client.admin.topics import TopicDescription as TopicDescription
from kafkalite.client.cluster.client import ClusterClient, Opener
from kafkalite.client.cluster.retry import RetryPolicy
from kafkalite.client.errors import AdminError as AdminError
from kafkalite.client.options import options_from_config


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
