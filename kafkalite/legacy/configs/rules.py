"""Rules of brokers for settings, which the tools check before they send a request."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import KafkaError
from kafkalite.legacy.command_line.failures import ToolError


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """Raise ToolError for the first setting that is not one of topics or has an invalid value."""
    try:
        TopicConfig.from_overrides(TopicConfig(), configs)
    except KafkaError as problem:
        raise ToolError(problem.message, "org.apache.kafka.common.errors.InvalidConfigurationException") from None
