"""AlterConfigs (33), IncrementalAlterConfigs (44): settings of topics and brokers, written to ZooKeeper and announced to all brokers.

- AlterConfigs replaces all overrides of a resource; IncrementalAlterConfigs sets, deletes, appends and subtracts (KIP-339), conditionally,
  so that two callers at once lose nothing. Both 1+ flexible later; `validate_only` writes nothing.
- A broker resource belongs to that broker; the empty name is the cluster's default (KIP-226).
- Not done: broker loggers, policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafkalite.broker.handlers.describe_configs import BROKER, TOPIC
from kafkalite.config.broker import BROKER_KEYS
from kafkalite.config.dynamic import Operation, altered, check_broker_overrides
from kafkalite.config.topic import TOPIC_KEYS, TopicConfig, UnknownTopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from zk import paths

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext


async def alter_configs(
    broker: Broker, request: messages.alter_configs_request.AlterConfigsRequest, context: RequestContext
) -> messages.alter_configs_response.AlterConfigsResponse:
    """Replace the overrides of each resource."""
    m = messages.alter_configs_response

    def replacement(resource: Any) -> Callable[[Mapping[str, str]], dict[str, str]]:
        operations = [Operation(each.name, 0, each.value) for each in resource.configs]
        return lambda _: altered({}, operations, _keys(resource))

    responses = []
    for resource in request.resources:
        code, message = await _alter(broker, resource, replacement(resource), request.validate_only)
        responses.append(
            m.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return m.AlterConfigsResponse(responses=responses)


async def incremental_alter_configs(
    broker: Broker,
    request: messages.incremental_alter_configs_request.IncrementalAlterConfigsRequest,
    context: RequestContext,
) -> messages.incremental_alter_configs_response.IncrementalAlterConfigsResponse:
    """Change single overrides of each resource."""
    m = messages.incremental_alter_configs_response

    def change(resource: Any) -> Callable[[Mapping[str, str]], dict[str, str]]:
        operations = [Operation(each.name, each.config_operation, each.value) for each in resource.configs]
        return lambda current: altered(current, operations, _keys(resource))

    responses = []
    for resource in request.resources:
        code, message = await _alter(broker, resource, change(resource), request.validate_only)
        responses.append(
            m.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return m.IncrementalAlterConfigsResponse(responses=responses)


def _keys(resource: Any) -> Mapping[str, Any]:
    return TOPIC_KEYS if resource.resource_type == TOPIC else BROKER_KEYS


async def _alter(
    broker: Broker, resource: Any, change: Callable[[Mapping[str, str]], dict[str, str]], validate_only: bool
) -> tuple[ErrorCode, str | None]:
    try:
        entity_path, check = _target(broker, resource)
        await broker.dynamic_configs.change(entity_path, change, check, validate_only)
    except KafkaError as problem:
        return problem.code, problem.message
    return ErrorCode.NONE, None


def _target(broker: Broker, resource: Any) -> tuple[str, Callable[[dict[str, str]], None]]:
    """(path of the entity below /config, what raises KafkaError for overrides that must not be written)."""
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        if code := broker.validate_topic_name(name):
            raise KafkaError(code, f"{name!r} is no topic name")
        if name not in broker.metadata.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name!r} does not exist.")
        return f"topics/{name}", lambda overrides: _check_topic(broker, name, overrides)
    if resource.resource_type == BROKER:
        if name and not name.isdigit():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        if name and int(name) != broker.broker_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker.broker_id}, but received {name}"
            )
        sources = broker.dynamic_configs.sources
        return (
            f"brokers/{name or paths.DEFAULT_ENTITY}",
            lambda overrides: check_broker_overrides(sources, overrides, per_broker=bool(name)),
        )
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource.resource_type}; use 2 (topic) or 4 (broker)"
    )


def _check_topic(broker: Broker, topic: str, overrides: dict[str, str]) -> None:
    try:
        TopicConfig.from_overrides(broker.dynamic_configs.topic_defaults, overrides)
    except UnknownTopicConfig:
        raise
    except KafkaError as problem:
        resource = f"ConfigResource(type=TOPIC, name='{topic}')"
        raise KafkaError(problem.code, f"Invalid config value for resource {resource}: {problem.message}") from problem
