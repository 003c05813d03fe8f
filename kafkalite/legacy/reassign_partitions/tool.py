"""`kafka-reassign-partitions`: move replicas to other brokers and log directories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import TerseError, ToolError, UsageError, uncaught
from kafkalite.legacy.command_line.option_parser import Options
from kafkalite.legacy.reassign_partitions.options import (
    ACTIONS,
    BOOTSTRAP_SERVER,
    CANCEL,
    COMMAND_CONFIG,
    EXECUTE,
    GENERATE,
    LIST,
    OPTIONS,
    VERIFY,
    ZOOKEEPER,
    check,
)

if TYPE_CHECKING:
    from kafkalite.legacy.cluster.admin_session import AdminSession

TOOL: Final = "kafka-reassign-partitions"


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        options = Options(TOOL, (*OPTIONS, ZOOKEEPER), arguments)
    except UsageError as problem:
        raise uncaught(problem) from None
    check(options)
    try:
        if options.has(ZOOKEEPER):
            from kafkalite.legacy.reassign_partitions.zookeeper import run

            run(options)
        else:
            _over_brokers(options)
    except TerseError as problem:
        print(problem.message)
        return 1
    except ToolError as problem:
        shown = problem.of_future()
        print(f"Error: {shown.message}\n{shown}\n")
        return 1
    return 0


def _over_brokers(options: Options) -> None:
    from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin
    from kafkalite.legacy.reassign_partitions import actions as reassignment_actions

    properties = admin_properties(
        options.value(COMMAND_CONFIG), options.value(BOOTSTRAP_SERVER), client_id="reassign-partitions-tool"
    )

    async def work(session: AdminSession) -> None:
        actions = reassignment_actions.Actions(session, options)
        await {
            VERIFY: actions.verify,
            GENERATE: actions.generate,
            EXECUTE: actions.execute,
            CANCEL: actions.cancel,
            LIST: actions.list_moves,
        }[next(each for each in ACTIONS if options.has(each))]()

    with_admin(properties, work)
