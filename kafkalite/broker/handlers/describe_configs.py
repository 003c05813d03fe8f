"""DescribeConfigs (32): settings of topics and brokers, read from ZooKeeper and the broker's own file, with their sources (KIP-226).

- 1 synonyms; 3 types and documentation; 4 flexible. A broker answers for itself and for the cluster's default (an empty name);
  a topic is answered by any broker, from its znode, so a change shows before the logs obey it.
- Not done: broker loggers, client metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.config.dynamic import (
    BrokerSources,
    ConfigEntry,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from kafkalite.controller.topic_rules import name_error
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from zk import paths

if TYPE_CHECKING:
    from kafkalite.broker.dynamic_configs import DynamicConfigs
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.types import BrokerId

TOPIC, BROKER = 2, 4


class Parts(Protocol):
    """What these handlers use of the broker."""

    @property
    def broker_id(self) -> BrokerId: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def dynamic_configs(self) -> DynamicConfigs: ...


async def describe_configs(
    parts: Parts, request: messages.describe_configs_request.DescribeConfigsRequest, context: RequestContext
) -> messages.describe_configs_response.DescribeConfigsResponse:
    """The settings of each resource, or its error."""
    m = messages.describe_configs_response
    results = []
    for resource in request.resources:
        result = m.DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            entries = await _entries(parts, resource)
            result.configs = [_config(entry, request) for entry in entries]
        except KafkaError as problem:
            result.error_code, result.error_message = problem.code, problem.message
        results.append(result)
    return m.DescribeConfigsResponse(results=results)


async def _entries(
    parts: Parts, resource: messages.describe_configs_request.DescribeConfigsResource
) -> list[ConfigEntry]:
    names = resource.configuration_keys
    if resource.resource_type == TOPIC:
        if name_error(resource.resource_name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{resource.resource_name!r} is no topic name")
        if resource.resource_name not in parts.metadata.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")  # Kafka says no word about it
        overrides = await parts.dynamic_configs.read(paths.topic_config(resource.resource_name))
        return describe_topic(parts.dynamic_configs.sources, overrides, names)
    if resource.resource_type == BROKER:
        return await _broker_entries(parts, resource.resource_name, names)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no settings here")


async def _broker_entries(parts: Parts, name: str, names: list[str] | None) -> list[ConfigEntry]:
    default = await parts.dynamic_configs.read(paths.broker_config(None))
    if name == "":
        return describe_cluster_default(default, names)
    if not name.isdigit():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker id must be an integer, but it is: {name}")
    if int(name) != parts.broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {parts.broker_id} or empty string, but received {name}",
        )
    own = await parts.dynamic_configs.read(paths.broker_config(parts.broker_id))
    return describe_broker(BrokerSources(parts.dynamic_configs.sources.static, default, own), names)


def _config(
    entry: ConfigEntry, request: messages.describe_configs_request.DescribeConfigsRequest
) -> messages.describe_configs_response.DescribeConfigsResourceResult:
    m = messages.describe_configs_response
    config = m.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        config_type=entry.type,
    )
    if request.include_synonyms:
        config.synonyms = [
            m.DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in entry.synonyms
        ]
    if request.include_documentation:
        config.documentation = entry.documentation
    return config


def _failed(
    request: messages.describe_configs_request.DescribeConfigsRequest, code: ErrorCode, message: str | None
) -> messages.describe_configs_response.DescribeConfigsResponse:
    m = messages.describe_configs_response
    return m.DescribeConfigsResponse(
        results=[
            m.DescribeConfigsResult(
                error_code=code, error_message=message, resource_type=r.resource_type, resource_name=r.resource_name
            )
            for r in request.resources
        ]
    )


APIS: Final = (
    served(
        ApiKey.DESCRIBE_CONFIGS,
        1,
        4,
        describe_configs,
        Permission(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
        Permission(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
        failure=_failed,
    ),
)
