"""A cluster in memory that administrators set; it is the admin and the cluster client in one."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from kafkalite.client import (
    AclBinding,
    AclFilter,
    AdminError,
    ClientError,
    ClientQuota,
    ClientTimeoutError,
    ConfigResource,
    QuotaEntity,
)
from kafkalite.client.cluster.view import BrokerNode, ClusterView, PartitionView
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages


class AdministeredSide:
    """Its topics have ids that begin with `prefix`."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.view = ClusterView(brokers={each: BrokerNode(each, "h", each) for each in (1, 2, 3)})
        self.topics: dict[str, Any] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.acls: set[AclBinding] | None = set()
        self.unknown_acls: list[tuple[str, int]] = []
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.users: dict[str, dict[str, int]] = {}
        self.is_deaf = False
        """True while it accepts changes, and does not make them."""
        self.hidden: set[str] = set()
        """Topics that its client may not see."""
        self.calls: list[str] = []
        self.refused_setting = ""
        self.made_by_others: dict[str, int] = {}
        """Topics, with their numbers of partitions, that somebody else makes just before they are made."""
        self.is_mute = False
        """True while answers to the creation of topics are lost."""

    def make_topic(self, name: str, partitions: int = 1, replicas: int = 1, settings: Any = None) -> None:
        """Make a topic, or make it again with another id."""
        number = sum(name in each for each in self.calls) if name in self.topics else 0
        views = tuple(
            PartitionView(name, each, 1, 0, tuple(range(1, replicas + 1)), (1,)) for each in range(partitions)
        )
        self.topics[name] = SimpleNamespace(name=name, topic_id=f"{self.prefix}-{name}-{number}", partitions=views)
        self.settings[name] = dict(settings or {})

    # As a cluster client

    async def request_any(self, request: Any) -> Any:
        if isinstance(request, messages.MetadataRequest):
            return self._tell_topics([each.name or "" for each in request.topics or ()])
        assert isinstance(request, messages.DescribeAclsRequest)
        m = messages.describe_acls_response
        if self.acls is None:
            return m.DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED)
        found = [(*resource, *entry) for resource, entry in sorted(self.acls)]
        found += [(2, "t", 3, principal, "*", operation, 3) for principal, operation in self.unknown_acls]
        return m.DescribeAclsResponse(
            resources=[
                m.DescribeAclsResource(
                    resource_type=each[0],
                    resource_name=each[1],
                    pattern_type=each[2],
                    acls=[
                        m.AclDescription(principal=each[3], host=each[4], operation=each[5], permission_type=each[6])
                    ],
                )
                for each in found
            ]
        )

    def _tell_topics(self, names: Iterable[str]) -> messages.MetadataResponse:
        """A broker says of a topic that may not be described neither that it is there nor that it is not."""
        m = messages.metadata_response
        codes = {
            name: ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if name in self.hidden
            else ErrorCode.NONE
            if name in self.topics
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for name in names
        }
        return messages.MetadataResponse(
            topics=[m.MetadataResponseTopic(error_code=code, name=name) for name, code in codes.items()]
        )

    # As an admin: what is there

    async def list_topics(self, include_internal: bool = False) -> list[str]:
        return sorted(self.topics.keys() - self.hidden)

    async def describe_topics(self, names: Iterable[str]) -> list[Any]:
        for each in names:
            if each not in self.topics:
                raise ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, each)
            if each in self.hidden:
                raise ClientError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, each)
        return [self.topics[each] for each in names]

    async def describe_resource_configs(self, resources: list[ConfigResource]) -> Any:
        def entries(name: str) -> dict[str, Any]:
            return {
                key: SimpleNamespace(name=key, value=value, source="DYNAMIC_TOPIC_CONFIG")
                for key, value in self.settings[name].items()
            }

        return {each: entries(each.name) for each in resources}

    async def describe_client_quotas(self) -> list[ClientQuota]:
        return [ClientQuota(entity, quotas) for entity, quotas in self.quotas.items()]

    async def describe_user_scram_credentials(self) -> Any:
        return {
            user: tuple(SimpleNamespace(mechanism=key, iterations=value) for key, value in some.items())
            for user, some in self.users.items()
        }

    # As an admin: changes

    def _begin(self, what: str, validate_only: bool = False) -> bool:
        """Note a call; True if it changes something."""
        self.calls.append(f"validate {what}" if validate_only else what)
        return not (validate_only or self.is_deaf)

    async def create_topics(self, topics: list[Any], validate_only: bool = False) -> list[Any]:
        failures, done = {}, {}
        for each in topics:
            if each.name in self.made_by_others:
                self.make_topic(each.name, self.made_by_others.pop(each.name))
            if each.name in self.topics:
                failures[each.name] = ClientError(ErrorCode.TOPIC_ALREADY_EXISTS, f"creating topic {each.name}")
            elif self._begin(f"create {each.name}", validate_only):
                self.make_topic(each.name, each.num_partitions, each.replication_factor, each.topic_configs)
                done[each.name] = SimpleNamespace(name=each.name, topic_id=self.topics[each.name].topic_id)
        if self.is_mute:
            raise ClientTimeoutError("creating topics")
        if failures:
            raise AdminError(failures, done)
        return list(done.values())

    async def create_partitions(self, wanted: Any, validate_only: bool = False) -> None:
        for name, each in wanted.items():
            if self._begin(f"partitions {name}", validate_only):
                self.make_topic(name, each.total_count, 1, self.settings[name])

    async def incremental_alter_configs(self, changes: Any, validate_only: bool = False) -> None:
        for resource, some in changes.items():
            if any(each.name == self.refused_setting for each in some):
                problem = ClientError(ErrorCode.INVALID_CONFIG, f"topic {resource.name}: {self.refused_setting}")
                raise AdminError({str(resource): problem})
            if self._begin(f"settings {resource.name}", validate_only):
                for each in some:
                    self.settings[resource.name].pop(each.name, None)
                    if each.operation == "set":
                        self.settings[resource.name][each.name] = each.value

    async def alter_client_quotas(self, changes: Any, validate_only: bool = False) -> None:
        for entity, quotas in changes.items():
            if self._begin(f"quotas {entity}", validate_only):
                there = self.quotas.pop(entity, {}) | quotas
                kept = {key: value for key, value in there.items() if value is not None}
                if kept:
                    self.quotas[entity] = kept

    async def create_acls(self, acls: list[AclBinding]) -> None:
        if self._begin("create ACLs") and self.acls is not None:
            self.acls |= set(acls)

    async def delete_acls(self, filters: list[AclFilter]) -> None:
        if self._begin("delete ACLs") and self.acls is not None:
            self.acls = {each for each in self.acls if not any(wanted.takes(each) for wanted in filters)}

    async def delete_topics(self, names: list[str]) -> None:
        for each in names:
            if self._begin(f"delete {each}"):
                del self.topics[each]
