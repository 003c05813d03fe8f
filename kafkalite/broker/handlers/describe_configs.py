"""DescribeConfigs (32): settings of topics and brokers, read from ZooKeeper and the broker's own file, with their sources (KIP-226).

- 1 synonyms; 3 types and documentation; 4 flexible. A broker answers for itself and for the cluster's default (an empty name);
  a topic is answered by any broker, from its znode, so a change shows before the logs obey it.
- Not done: broker loggers, client metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.config.dynamic import BrokerSources, describe_broker, describe_cluster_default, describe_topic
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from zk import paths

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext

TOPIC, BROKER = 2, 4


async def describe_configs(
    broker: Broker, request: messages.describe_configs_request.DescribeConfigsRequest, context: RequestContext
) -> messages.describe_configs_response.DescribeConfigsResponse:
    """The settings of each resource, or its error."""
    m = messages.describe_configs_response
    results = []
    for resource in request.resources:
        result = m.DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            entries = await _entries(broker, resource)
            result.configs = [_config(m, entry, request) for entry in entries]
        except KafkaError as problem:
            result.error_code, result.error_message = problem.code, problem.message
        results.append(result)
    return m.DescribeConfigsResponse(results=results)


async def _entries(broker: Broker, resource: Any) -> list[Any]:
    names = resource.configuration_keys
    if resource.resource_type == TOPIC:
        if broker.validate_topic_name(resource.resource_name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{resource.resource_name!r} is no topic name")
        if resource.resource_name not in broker.metadata.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")  # Kafka says no word about it
        overrides = await broker.dynamic_configs.read(paths.topic_config(resource.resource_name))
        return describe_topic(broker.dynamic_configs.sources, overrides, names)
    if resource.resource_type == BROKER:
        return await _broker_entries(broker, resource.resource_name, names)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no settings here")


async def _broker_entries(broker: Broker, name: str, names: list[str] | None) -> list[Any]:
    default = await broker.dynamic_configs.read(paths.broker_config(None))
    if name == "":
        return describe_cluster_default(default, names)
    if not name.isdigit():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker id must be an integer, but it is: {name}")
    if int(name) != broker.broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.broker_id} or empty string, but received {name}",
        )
    own = await broker.dynamic_configs.read(paths.broker_config(broker.broker_id))
    return describe_broker(BrokerSources(broker.dynamic_configs.sources.static, default, own), names)


def _config(m: Any, entry: Any, request: Any) -> Any:
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
