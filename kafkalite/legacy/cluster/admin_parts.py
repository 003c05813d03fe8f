"""The parts of `Admin` over one cluster, each imported at its first use: a tool that lists topics imports only what topics need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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

_CLASSES: Final = {
    "acls": "AclAdmin",
    "configs": "ConfigAdmin",
    "credentials": "CredentialAdmin",
    "groups": "GroupAdmin",
    "log_dirs": "LogDirAdmin",
    "partitions": "PartitionAdmin",
    "quotas": "QuotaAdmin",
    "records": "RecordAdmin",
    "topics": "TopicAdmin",
    "transactions": "TransactionAdmin",
}
"""Classes by their module in `kafkalite.client.admin`."""


class AdminParts:
    """The parts by name. `cluster` is connected and closed by its owner; the times are those of `Admin`, in ms."""

    if TYPE_CHECKING:
        acls: AclAdmin
        configs: ConfigAdmin
        credentials: CredentialAdmin
        groups: GroupAdmin
        log_dirs: LogDirAdmin
        partitions: PartitionAdmin
        quotas: QuotaAdmin
        records: RecordAdmin
        topics: TopicAdmin
        transactions: TransactionAdmin

    def __init__(self, cluster: ClusterClient, request_timeout_ms: int, default_api_timeout_ms: int) -> None:
        self._arguments = (cluster, request_timeout_ms, default_api_timeout_ms)

    def __getattr__(self, name: str) -> Any:
        from importlib import import_module

        if name not in _CLASSES:
            raise AttributeError(name)
        part = getattr(import_module(f"kafkalite.client.admin.{name}"), _CLASSES[name])(*self._arguments)
        setattr(self, name, part)
        return part
