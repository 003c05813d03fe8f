"""Options of our clients from the settings that Kafka's clients have: files of properties, and key=value on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafkalite.legacy.command_line.failures import ToolError

_CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"


def key_values(arguments: Iterable[str]) -> dict[str, str]:
    """Settings of "key=value" arguments; a value may hold an equals sign, and be missing."""
    return {key: value for key, _, value in (each.partition("=") for each in arguments)}


def properties_of(path: str | None) -> dict[str, str]:
    """The settings of a file, none without one. ToolError."""
    if path is None:
        return {}
    from kafkalite.legacy.cluster.admin_session import read_properties_file

    return read_properties_file(path)


def options_for(client: Callable[..., Any], properties: Mapping[str, str]) -> dict[str, Any]:
    """What `client` takes of the settings; those that it has no option for are left out. ToolError for text that does not fit."""
    from kafkalite.client.options import split_config

    try:
        options, _ = split_config(client, properties)
    except ValueError as problem:
        raise ToolError(str(problem), _CONFIG_EXCEPTION) from None
    return options
