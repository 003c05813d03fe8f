"""DescribeConfigs (32): settings of topics and brokers, read from ZooKeeper and the broker's own file, with their sources (KIP-226).

- 0 instead of sources whether a value is the default, which Kafka 3.9 leaves at no; 1 synonyms; 3 types and documentation; 4 flexible.
- A broker answers for itself and for the cluster's default (an empty name); a topic is answered by any broker, from its znode, so a change
  shows before the logs obey it.
- A resource of a type that there is not fails all of the request.
- A resource that is named several times is answered once, with all keys that are asked of it (Kafka: as often as it is named).
- Not done: broker loggers, client metrics.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

from kafkalite.broker.identity.authorizer import Operation
from kafkalite.broker.parts import HasBrokerId, HasDynamicConfigs, HasMetadata
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.guards import EachConfig
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.config.dynamic import (
    BrokerSources,
    ConfigEntry,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from kafkalite.controller.topics.topic_validation import name_error
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Pace, Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from zk import paths

TOPIC, BROKER = 2, 4
_BROKER_LOGGER: Final = 8
_CLIENT_METRICS: Final = 16
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to "
    "an incompatible broker. See the broker logs for more details."
)
_DIGITS_MAX: Final = 10
_DESCRIPTION_UNITS: Final = 100
"""All settings of a topic, told the first time."""

_Names: TypeAlias = frozenset[str] | None
"""The keys that are asked for; None: all."""


class Parts(HasBrokerId, HasMetadata, HasDynamicConfigs, Protocol):
    """The parts of the broker that these handlers use."""


async def describe_configs(
    parts: Parts, request: messages.DescribeConfigsRequest, context: RequestContext
) -> messages.DescribeConfigsResponse:
    """Return the settings of each resource, or its error."""
    m = messages.describe_configs_response
    asked = await context.portions.finish(_merge_resources(request))
    pace = context.portions.pace()
    description = _Description(parts, request)
    results = []
    for resource, names in asked.values():
        await pace.unit()
        result = m.DescribeConfigsResult(
            error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            result.configs = await description.configs(resource.resource_type, resource.resource_name, names, pace)
        except KafkaError as problem:
            result.error_code, result.error_message = problem.code, problem.message
        results.append(result)
    return m.DescribeConfigsResponse(results=results)


def _merge_resources(
    request: messages.DescribeConfigsRequest,
) -> Work[dict[tuple[int, str], tuple[messages.describe_configs_request.DescribeConfigsResource, _Names]]]:
    """Return each resource once, with all keys that are asked of it: a few bytes can name what has hundreds of settings."""
    asked: dict[tuple[int, str], tuple[messages.describe_configs_request.DescribeConfigsResource, _Names]] = {}
    for resource in request.resources:
        yield
        if resource.resource_type not in (TOPIC, BROKER, _BROKER_LOGGER, _CLIENT_METRICS):
            raise KafkaError(ErrorCode.INVALID_REQUEST, _MALFORMED)
        name = resource.resource_name
        if resource.resource_type == BROKER and (broker_id := broker_id_of(name)) is not None:
            name = str(broker_id)  # 1 is also 01
        keys = resource.configuration_keys
        names = None if keys is None else frozenset(keys)
        known = asked.get((resource.resource_type, name))
        if known is None:
            asked[resource.resource_type, name] = resource, names
        elif known[1] is not None and known[1] != names:
            asked[resource.resource_type, name] = known[0], None if names is None else known[1] | names
    return asked


def broker_id_of(name: str) -> int | None:
    """Return the broker id that is the name of a resource, None if it is no number."""
    return int(name) if len(name) <= _DIGITS_MAX and name.isascii() and name.isdigit() else None


class _Description:
    """The entries of one answer; topics with the same overrides, which most have, share their entries."""

    def __init__(self, parts: Parts, request: messages.DescribeConfigsRequest) -> None:
        self._parts, self._request = parts, request
        self._topics: dict[
            tuple[_Names, tuple[tuple[str, str], ...]],
            list[messages.describe_configs_response.DescribeConfigsResourceResult],
        ] = {}

    async def configs(
        self, resource_type: int, name: str, names: _Names, pace: Pace
    ) -> list[messages.describe_configs_response.DescribeConfigsResourceResult]:
        """Return the entries of a resource. Raises KafkaError if it cannot be described."""
        if resource_type == TOPIC:
            return await self._topic(name, names, pace)
        if resource_type == BROKER:
            return self._make_results(await _broker_entries(self._parts, name, names))
        if resource_type == _CLIENT_METRICS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "Config type client-metrics is only supported on KRaft clusters"
            )
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {resource_type} has no settings here")

    async def _topic(
        self, name: str, names: _Names, pace: Pace
    ) -> list[messages.describe_configs_response.DescribeConfigsResourceResult]:
        parts = self._parts
        if name_error(name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} is no topic name")
        if name not in parts.metadata.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")  # Kafka says no word about it
        overrides = await parts.dynamic_configs.read(paths.topic_config(name))
        key = names, tuple(sorted(overrides.items()))
        told = self._topics.get(key)
        if told is None:
            await pace.unit(_DESCRIPTION_UNITS)
            told = self._make_results(describe_topic(parts.dynamic_configs.sources, overrides, names))
            self._topics[key] = told
        return told

    def _make_results(
        self, entries: list[ConfigEntry]
    ) -> list[messages.describe_configs_response.DescribeConfigsResourceResult]:
        return [_config(entry, self._request) for entry in entries]


async def _broker_entries(parts: Parts, name: str, names: _Names) -> list[ConfigEntry]:
    broker_id = broker_id_of(name)
    if name and broker_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker id must be an integer, but it is: {name}")
    if name and broker_id != parts.broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {parts.broker_id} or empty string, but received {name}",
        )
    default = await parts.dynamic_configs.read(paths.broker_config(None))
    if name == "":
        return describe_cluster_default(default, names)
    own = await parts.dynamic_configs.read(paths.broker_config(parts.broker_id))
    return describe_broker(BrokerSources(parts.dynamic_configs.sources.static, default, own), names)


def _config(
    entry: ConfigEntry, request: messages.DescribeConfigsRequest
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


APIS: Final = (
    serve_api(
        ApiKey.DESCRIBE_CONFIGS,
        0,
        4,
        describe_configs,
        failure=FailedItems(),
        guard=EachConfig(Operation.DESCRIBE_CONFIGS, "results", has_message=True),
    ),
)
