"""`kafka-reassign-partitions`: move replicas to other brokers and log directories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import TerseError, ToolError, UsageError, uncaught
from kafkalite.legacy.command_line.option_parser import Options
from kafkalite.legacy.reassign_partitions import options as tool

if TYPE_CHECKING:
    from kafkalite.legacy.cluster.admin_session import AdminSession

TOOL: Final = "kafka-reassign-partitions"


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        options = Options(TOOL, (*tool.OPTIONS, tool.ZOOKEEPER), arguments)
    except UsageError as problem:
        raise uncaught(problem) from None
    tool.check(options)
    try:
        if options.has(tool.ZOOKEEPER):
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
        options.value(tool.COMMAND_CONFIG), options.value(tool.BOOTSTRAP_SERVER), client_id="reassign-partitions-tool"
    )

    async def work(session: AdminSession) -> None:
        actions = reassignment_actions.Actions(session, options)
        await {
            tool.VERIFY: actions.verify,
            tool.GENERATE: actions.generate,
            tool.EXECUTE: actions.execute,
            tool.CANCEL: actions.cancel,
            tool.LIST: actions.list_moves,
        }[next(each for each in tool.ACTIONS if options.has(each))]()

    with_admin(properties, work)
