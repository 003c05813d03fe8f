"""The parts of `Admin` over one cluster, each imported when it is asked for: a tool that lists topics pays for those of topics only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.client.cluster_client import ClusterClient
    from kafkalite.client.config_admin import ConfigAdmin
    from kafkalite.client.credential_admin import CredentialAdmin
    from kafkalite.client.group_admin import GroupAdmin
    from kafkalite.client.log_dir_admin import LogDirAdmin
    from kafkalite.client.partition_admin import PartitionAdmin
    from kafkalite.client.quota_admin import QuotaAdmin
    from kafkalite.client.record_admin import RecordAdmin
    from kafkalite.client.topic_admin import TopicAdmin


class AdminParts:
    """See the module. `cluster` is connected and closed by its owner; the times are those of `Admin`, in ms."""

    def __init__(self, cluster: ClusterClient, request_timeout_ms: int, default_api_timeout_ms: int) -> None:
        self._given = (cluster, request_timeout_ms, default_api_timeout_ms)

    @property
    def topics(self) -> TopicAdmin:
        """Topics and the cluster."""
        from kafkalite.client.topic_admin import TopicAdmin

        return TopicAdmin(*self._given)

    @property
    def records(self) -> RecordAdmin:
        from kafkalite.client.record_admin import RecordAdmin

        return RecordAdmin(*self._given)

    @property
    def configs(self) -> ConfigAdmin:
        from kafkalite.client.config_admin import ConfigAdmin

        return ConfigAdmin(*self._given)

    @property
    def quotas(self) -> QuotaAdmin:
        from kafkalite.client.quota_admin import QuotaAdmin

        return QuotaAdmin(*self._given)

    @property
    def credentials(self) -> CredentialAdmin:
        from kafkalite.client.credential_admin import CredentialAdmin

        return CredentialAdmin(*self._given)

    @property
    def log_dirs(self) -> LogDirAdmin:
        from kafkalite.client.log_dir_admin import LogDirAdmin

        return LogDirAdmin(*self._given)

    @property
    def partitions(self) -> PartitionAdmin:
        from kafkalite.client.partition_admin import PartitionAdmin

        return PartitionAdmin(*self._given)

    @property
    def groups(self) -> GroupAdmin:
        from kafkalite.client.group_admin import GroupAdmin

        return GroupAdmin(*self._given)
