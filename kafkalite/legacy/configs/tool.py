"""`kafka-configs`: settings of topics and brokers, quotas of clients, users and addresses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from kafkalite.legacy.command_line.entry import print_failure, run_tool
from kafkalite.legacy.command_line.failures import (
    InvalidConfiguration,
    TerseError,
    ToolError,
    UsageError,
)
from kafkalite.legacy.command_line.option_parser import ZOOKEEPER_DEPRECATED, Options
from kafkalite.legacy.configs import options as tool

TOOL: Final = "kafka-configs"
HEADLINE: Final = (
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip or client-metrics"
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        return _serve(arguments)
    except TerseError:
        raise
    except ToolError as problem:
        if isinstance(problem, UsageError | InvalidConfiguration) or problem.java_class.startswith(_TERSE):
            raise TerseError(problem.message) from None
        print(f"Error while executing config command with args '{' '.join(arguments)}'", file=sys.stderr)
        print_failure(TerseError(str(problem.of_future())))
        return 1


_TERSE: Final = ("java.lang.IllegalArgumentException", "joptsimple.")


def _serve(arguments: Sequence[str]) -> int:
    options = Options(TOOL, tool.OPTIONS, arguments)
    options.print_help_or_version(HEADLINE)
    tool.check(options)
    if options.has(tool.ZOOKEEPER):
        print(ZOOKEEPER_DEPRECATED)
        from kafkalite.legacy.configs import zookeeper as configs_zookeeper

        return configs_zookeeper.run(options)
    from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin
    from kafkalite.legacy.configs import actions as config_actions

    servers = options.value_of_either(tool.BOOTSTRAP_SERVER, tool.BOOTSTRAP_CONTROLLER)
    properties = admin_properties(options.value(tool.COMMAND_CONFIG), servers)
    if options.has(tool.ALTER) and len(tool.entity_types(options)) != len(tool.entity_names(options)):
        raise ToolError("An entity name must be specified for every entity type")
    action = config_actions.alter if options.has(tool.ALTER) else config_actions.describe
    with_admin(properties, lambda session: action(session, options))
    return 0
