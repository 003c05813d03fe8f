"""Administration: topics, records, settings, quotas, ACLs, log directories, partitions, groups, transactions; each in a module.

Every call is typed; answers are frozen, with `.to_dict()`. Calls that only a controller serves are sent to it, and again to the next
one when it has moved. A call over several items raises the error of the first that failed after all were tried; `error.failures` of an
`AdminError` has them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from kafkalite.client.admin.acls import AclAdmin
from kafkalite.client.admin.configs import ConfigAdmin
from kafkalite.client.admin.credentials import CredentialAdmin
from kafkalite.client.admin.groups import GroupAdmin
from kafkalite.client.admin.log_dirs import LogDirAdmin
from kafkalite.client.admin.options import AdminOptions
from kafkalite.client.admin.partitions import PartitionAdmin
from kafkalite.client.admin.quotas import QuotaAdmin
from kafkalite.client.admin.records import RecordAdmin
from kafkalite.client.admin.topics import TopicAdmin
from kafkalite.client.admin.transactions import TransactionAdmin
from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.options import options_from_config, takes_options

if TYPE_CHECKING:
    from kafkalite.client.keywords import AdminKeywords


class Admin(
    TopicAdmin,
    RecordAdmin,
    ConfigAdmin,
    QuotaAdmin,
    CredentialAdmin,
    AclAdmin,
    LogDirAdmin,
    PartitionAdmin,
    GroupAdmin,
    TransactionAdmin,
):
    """Administrative calls. Use it as `async with Admin(bootstrap_servers=…) as admin`, or `connect` and `close` it.

    `options` are the fields of `AdminOptions`, by keyword.
    """

    @takes_options(AdminOptions)
    def __init__(self, **options: Unpack[AdminKeywords]) -> None:
        self.options = AdminOptions(**options)
        cluster = ClusterClient(self.options)
        super().__init__(cluster, self.options.request_timeout_ms, self.options.default_api_timeout_ms)

    @classmethod
    @takes_options(AdminOptions)
    def from_config(cls, config: Mapping[str, Any], **options: Unpack[AdminKeywords]) -> Self:
        """Return an admin client from Java's dotted names, `{"bootstrap.servers": …}`; `options` are keyword arguments.

        UnknownOptionError for a name that is no option, ValueError for text that does not fit.
        """
        return cls(**{**options_from_config(AdminOptions, config), **options})

    async def connect(self, timeout: float = 10.0) -> None:
        """Reach the cluster within `timeout` seconds. NoBrokersAvailableError names, per bootstrap server, what went wrong."""
        await self._cluster.connect(timeout)

    async def close(self) -> None:
        """Let go of all connections; calls that wait raise ClientClosedError. Closing twice does nothing."""
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
