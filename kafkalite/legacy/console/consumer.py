"""`kafka-console-consumer`: print the records of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.legacy.cluster.client_settings import key_values, properties_of
from kafkalite.legacy.command_line.entry import log, run_tool
from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.command_line.option_parser import Options
from kafkalite.legacy.console import consumer_options as tool

if TYPE_CHECKING:
    from kafkalite.legacy.console.message_formatters import Formatter

TOOL: Final = "kafka-console-consumer"


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = _read_options(arguments)
    settings = tool.consumer_settings(options)
    start = tool.start_offset(options)
    formatter = _formatter(options)
    from kafkalite.legacy.cluster.servers import check_servers

    try:
        check_servers(settings["bootstrap.servers"], "Failed to construct kafka consumer")
    except ToolError as problem:
        log("ERROR", "Unknown error when running consumer: ", tool.LOGGER, f"{problem}\nCaused by: {problem.cause}")
        return 1
    import asyncio

    from kafkalite.legacy.console.reading import Reading

    return asyncio.run(Reading(options, formatter).run(settings, start))


def _read_options(arguments: Sequence[str]) -> Options:
    options = Options.read_or_refuse(TOOL, tool.OPTIONS, arguments)
    tool.check(options)
    return options


def _formatter(options: Options) -> Formatter:
    from kafkalite.legacy.console.message_formatters import formatter_named

    properties = properties_of(options.value(tool.FORMATTER_CONFIG))
    for option, name in ((tool.KEY_DESERIALIZER, "key.deserializer"), (tool.VALUE_DESERIALIZER, "value.deserializer")):
        if options.value(option):
            properties[name] = options.value(option)
    properties.update(key_values(options.values(tool.PROPERTY)))
    name = options.value(tool.FORMATTER)
    found = formatter_named(name, properties)
    if found is None:
        options.refuse(name)  # as Java's ClassNotFoundException says it
        raise SystemExit(1)
    return found
