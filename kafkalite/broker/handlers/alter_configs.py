"""AlterConfigs (33), IncrementalAlterConfigs (44): settings of topics and brokers, written to ZooKeeper and announced to all brokers.

- AlterConfigs replaces all overrides of a resource; IncrementalAlterConfigs sets, deletes, appends and subtracts (KIP-339), conditionally,
  so that two callers at once lose nothing. Both 1+ flexible later; `validate_only` writes nothing.
- A broker resource belongs to that broker; the empty name is the cluster's default (KIP-226). The broker that is asked obeys before it
  answers, and does not wait for the notification as Apache Kafka's does: a throttle holds once it is set.
- Not done: broker loggers, policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from kafkalite.broker.handlers.describe_configs import BROKER, TOPIC, Parts, broker_id_of
from kafkalite.broker.identity.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.guards import EachConfig
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.config.broker import BROKER_KEYS
from kafkalite.config.dynamic import Operation as ConfigOperation
from kafkalite.config.dynamic import apply_operations, check_broker_overrides
from kafkalite.config.topic import TOPIC_KEYS, TopicConfig, UnknownTopicConfig
from kafkalite.controller.topics.topic_validation import name_error
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from zk import paths

if TYPE_CHECKING:
    from kafkalite.config.keys import Key

_Resource: TypeAlias = (
    "messages.alter_configs_request.AlterConfigsResource"
    " | messages.incremental_alter_configs_request.AlterConfigsResource"
)
_ResourceT = TypeVar(
    "_ResourceT",
    "messages.alter_configs_request.AlterConfigsResource",
    "messages.incremental_alter_configs_request.AlterConfigsResource",
)
_ResponseT = TypeVar(
    "_ResponseT",
    "messages.alter_configs_response.AlterConfigsResourceResponse",
    "messages.incremental_alter_configs_response.AlterConfigsResourceResponse",
)
_Change: TypeAlias = "Callable[[Mapping[str, str]], dict[str, str]]"
"""Makes the new overrides of a resource from those that it has."""

_KEYS_MAX: Final = 5000
"""Many times the keys that there are."""


async def alter_configs(
    parts: Parts, request: messages.AlterConfigsRequest, context: RequestContext
) -> messages.AlterConfigsResponse:
    """Replace the overrides of each resource."""

    def replace_overrides(resource: messages.alter_configs_request.AlterConfigsResource) -> _Change:
        operations = [ConfigOperation(each.name, 0, each.value) for each in resource.configs]
        return lambda _: apply_operations({}, operations, _keys(resource))

    kind = messages.alter_configs_response.AlterConfigsResourceResponse
    responses = await _alter_each(parts, request.resources, replace_overrides, request.validate_only, kind, context)
    return messages.AlterConfigsResponse(responses=responses)


async def incremental_alter_configs(
    parts: Parts, request: messages.IncrementalAlterConfigsRequest, context: RequestContext
) -> messages.IncrementalAlterConfigsResponse:
    """Change single overrides of each resource."""

    def change_overrides(resource: messages.incremental_alter_configs_request.AlterConfigsResource) -> _Change:
        operations = [ConfigOperation(each.name, each.config_operation, each.value) for each in resource.configs]
        return lambda current: apply_operations(current, operations, _keys(resource))

    kind = messages.incremental_alter_configs_response.AlterConfigsResourceResponse
    responses = await _alter_each(parts, request.resources, change_overrides, request.validate_only, kind, context)
    return messages.IncrementalAlterConfigsResponse(responses=responses)


async def _alter_each(
    parts: Parts,
    resources: list[_ResourceT],
    change_of: Callable[[_ResourceT], _Change],
    validate_only: bool,
    kind: type[_ResponseT],
    context: RequestContext,
) -> list[_ResponseT]:
    responses = []
    pace = context.portions.pace()
    for resource in resources:
        await pace.unit(1 + len(resource.configs))
        code, message = await _alter(parts, resource, change_of, validate_only)
        responses.append(
            kind(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return responses


def _keys(resource: _Resource) -> Mapping[str, Key]:
    return TOPIC_KEYS if resource.resource_type == TOPIC else BROKER_KEYS


async def _alter(
    parts: Parts, resource: _ResourceT, change_of: Callable[[_ResourceT], _Change], validate_only: bool
) -> tuple[ErrorCode, str | None]:
    try:
        entity_path, check = _target(parts, resource)
        if len(resource.configs) > _KEYS_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"More than {_KEYS_MAX} configs of one resource.")
        await parts.dynamic_configs.change(entity_path, change_of(resource), check, validate_only)
        if resource.resource_type == BROKER and not validate_only:
            await parts.dynamic_configs.load_broker(parts.broker_id)
    except KafkaError as problem:
        return problem.code, problem.message
    return ErrorCode.NONE, None


def _target(parts: Parts, resource: _Resource) -> tuple[str, Callable[[dict[str, str]], None]]:
    """Return the entity's path below /config, and what raises KafkaError for overrides that must not be written."""
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        if code := name_error(name):
            raise KafkaError(code, f"{name!r} is no topic name")
        if name not in parts.metadata.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name!r} does not exist.")
        return f"topics/{name}", lambda overrides: _check_topic(parts, name, overrides)
    if resource.resource_type == BROKER:
        broker_id = broker_id_of(name)
        if name and broker_id is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        if name and broker_id != parts.broker_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {parts.broker_id}, but received {name}"
            )
        sources = parts.dynamic_configs.sources
        return (
            f"brokers/{broker_id if name else paths.DEFAULT_ENTITY}",
            lambda overrides: check_broker_overrides(sources, overrides, per_broker=bool(name)),
        )
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource.resource_type}; use 2 (topic) or 4 (broker)"
    )


def _check_topic(parts: Parts, topic: str, overrides: dict[str, str]) -> None:
    try:
        TopicConfig.from_overrides(parts.dynamic_configs.topic_defaults, overrides)
    except UnknownTopicConfig:
        raise
    except KafkaError as problem:
        resource = f"ConfigResource(type=TOPIC, name='{topic}')"
        raise KafkaError(problem.code, f"Invalid config value for resource {resource}: {problem.message}") from problem


_PERMISSIONS: Final = (
    Permission(Operation.ALTER_CONFIGS, ResourceType.TOPIC),
    Permission(Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
)
_GUARD: Final = EachConfig(Operation.ALTER_CONFIGS, "responses")
APIS: Final = (
    serve_api(ApiKey.ALTER_CONFIGS, 0, 2, alter_configs, failure=FailedItems(), guard=_GUARD),
    serve_api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, incremental_alter_configs, failure=FailedItems(), guard=_GUARD),
)
