"""The parts of `Admin` over one cluster, each imported when it is asked for: a tool that lists topics pays for those of topics only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.client.admin.acls import AclAdmin
    from kafkalite.client.admin.configs import ConfigAdmin
    from kafkalite.client.admin.credentials import CredentialAdmin
    from kafkalite.client.admin.groups import GroupAdmin
    from kafkalite.client.admin.log_dirs import LogDirAdmin
    from kafkalite.client.admin.partitions import PartitionAdmin
    from kafkalite.client.admin.quotas import QuotaAdmin
    from kafkalite.client.admin.records import RecordAdmin
    from kafkalite.client.admin.topics import TopicAdmin
    from kafkalite.client.admin.transactions import TransactionAdmin
    from kafkalite.client.cluster.client import ClusterClient


class AdminParts:
    """See the module. `cluster` is connected and closed by its owner; the times are those of `Admin`, in ms."""

    def __init__(self, cluster: ClusterClient, request_timeout_ms: int, default_api_timeout_ms: int) -> None:
        self._given = (cluster, request_timeout_ms, default_api_timeout_ms)

    @property
    def topics(self) -> TopicAdmin:
        """Topics and the cluster."""
        from kafkalite.client.admin.topics import TopicAdmin

        return TopicAdmin(*self._given)

    @property
    def records(self) -> RecordAdmin:
        from kafkalite.client.admin.records import RecordAdmin

        return RecordAdmin(*self._given)

    @property
    def configs(self) -> ConfigAdmin:
        from kafkalite.client.admin.configs import ConfigAdmin

        return ConfigAdmin(*self._given)

    @property
    def quotas(self) -> QuotaAdmin:
        from kafkalite.client.admin.quotas import QuotaAdmin

        return QuotaAdmin(*self._given)

    @property
    def credentials(self) -> CredentialAdmin:
        from kafkalite.client.admin.credentials import CredentialAdmin

        return CredentialAdmin(*self._given)

    @property
    def acls(self) -> AclAdmin:
        from kafkalite.client.admin.acls import AclAdmin

        return AclAdmin(*self._given)

    @property
    def log_dirs(self) -> LogDirAdmin:
        from kafkalite.client.admin.log_dirs import LogDirAdmin

        return LogDirAdmin(*self._given)

    @property
    def partitions(self) -> PartitionAdmin:
        from kafkalite.client.admin.partitions import PartitionAdmin

        return PartitionAdmin(*self._given)

    @property
    def groups(self) -> GroupAdmin:
        from kafkalite.client.admin.groups import GroupAdmin

        return GroupAdmin(*self._given)

    @property
    def transactions(self) -> TransactionAdmin:
        from kafkalite.client.admin.transactions import TransactionAdmin

        return TransactionAdmin(*self._given)
