"""Options of our clients from settings of Kafka's clients: properties files, and key=value on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafkalite.legacy.command_line.failures import ToolError, file_error

if TYPE_CHECKING:
    from kafkalite.client.options import ConnectionOptions

_CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"


def key_values(arguments: Iterable[str]) -> dict[str, str]:
    """Return the settings of "key=value" arguments; a value may hold an equals sign, and be missing."""
    return {key: value for key, _, value in (each.partition("=") for each in arguments)}


def properties_of(path: str | None) -> dict[str, str]:
    """Return the settings of a file, none without a path. Raises ToolError."""
    return {} if path is None else read_properties_file(path)


def read_properties_file(path: str) -> dict[str, str]:
    """Return the settings of a file that was named on the command line. Raises ToolError, as Java's `Properties.load`."""
    from kafkalite.config.keys import ConfigError
    from kafkalite.config.properties import parse_properties

    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as problem:
        raise file_error(path, problem) from None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("iso-8859-1")  # in which Java reads all of them
    try:
        return parse_properties(text)
    except ConfigError:
        raise ToolError("Malformed \\uxxxx encoding.") from None


def security_of(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the security options of a client. Settings that only Java has are left out. Raises ToolError for invalid values."""
    from kafkalite.client.admin.options import AdminOptions

    named = ("security.", "ssl.", "sasl.", "allow.world.readable.secrets")
    return options_for(AdminOptions, {key: text for key, text in properties.items() if key.startswith(named)})


def options_for(options: type[ConnectionOptions], properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a client from Kafka's settings; settings that it does not have are left out. Raises ToolError for invalid
    values.
    """
    from kafkalite.client.options import split_config

    try:
        found, _ = split_config(options, properties)
        options(**found)
    except ValueError as problem:
        raise ToolError(str(problem), _CONFIG_EXCEPTION) from None
    return found
