"""What the tools judge of settings before they ask a broker, by the rules that the brokers have."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import KafkaError
from kafkalite.legacy.command_line.failures import ToolError


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """ToolError for the first setting that topics do not have, or that cannot have its value."""
    try:
        TopicConfig.from_overrides(TopicConfig(), configs)
    except KafkaError as problem:
        raise ToolError(problem.message, "org.apache.kafka.common.errors.InvalidConfigurationException") from None
