"""`kafka-consumer-groups`: list, describe and delete groups, delete and reset their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkalite.legacy.command_line.entry import print_failure, run_tool
from kafkalite.legacy.command_line.failures import BrokerFailure, TerseError, ToolError, UsageError, uncaught
from kafkalite.legacy.command_line.option_parser import Options
from kafkalite.legacy.consumer_groups import options as tool
from kafkalite.legacy.consumer_groups.calls import Groups, print_error

TOOL: Final = "kafka-consumer-groups"
_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
_TYPES: Final = ("Consumer", "Classic")
_WIDTH: Final = 15


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        options = Options(TOOL, (*tool.OPTIONS, *tool.OLD_OPTIONS), arguments)
        tool.check_available(options)
    except UsageError as problem:
        raise uncaught(problem) from None
    try:
        tool.check(options)
        if sum(options.has(each) for each in tool.ACTIONS) != 1:
            options.refuse(
                "Command must include exactly one action: "
                "--list, --describe, --delete, --reset-offsets, --delete-offsets"
            )
        return _serve(options)
    except ToolError as problem:
        if problem.java_class == "java.lang.IllegalArgumentException":
            options.refuse(problem.message or "")
        shown = problem.of_future()
        print_error(f"Executing consumer group command failed due to {shown.message}")
        print_failure(TerseError(str(shown)))
        return 0


def _serve(options: Options) -> int:
    if options.has(tool.ZOOKEEPER):
        from kafkalite.legacy.consumer_groups import zookeeper

        return zookeeper.run(options)
    from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin

    properties = admin_properties(options.value(tool.COMMAND_CONFIG), options.value(tool.BOOTSTRAP_SERVER))
    action = _ACTIONS[next(each for each in tool.ACTIONS if options.has(each))]
    with_admin(properties, lambda session: action(Groups(options, session)))
    return 0


# listing and deleting


async def _list(groups: Groups) -> None:
    options = groups.options
    with_type, with_state = options.has(tool.TYPE), options.has(tool.STATE)
    if not with_type and not with_state:
        for each in await groups.all_ids():
            print(each)
        return
    types, states = _types(options.value(tool.TYPE)), _states(options.value(tool.STATE))
    found = [each for each in await groups.list_groups(states) if not types or each.group_type.lower() in types]
    width = max([_WIDTH, *(len(each.group_id) for each in found)]) + 10
    columns = [("GROUP", width, [each.group_id for each in found])]
    if with_type:
        columns.append(("TYPE", 20, [each.group_type.capitalize() or "Unknown" for each in found]))
    if with_state:
        columns.append(("STATE", 20, [each.state or "Unknown" for each in found]))
    for row in range(-1, len(found)):
        print(" ".join(f"{title if row < 0 else cells[row]:<{size}}" for title, size, cells in columns))


def _states(given: str | None) -> list[str]:
    known = {each.lower(): each for each in _STATES}
    wanted = [each.strip().lower() for each in (given or "").split(",")] if given else []
    if any(each not in known for each in wanted):
        raise ToolError(f"Invalid state list '{given}'. Valid states are: {', '.join(_STATES)}")
    return [known[each] for each in wanted]


def _types(given: str | None) -> set[str]:
    wanted = {each.strip().lower() for each in given.split(",")} if given else set()
    if wanted - {each.lower() for each in _TYPES}:
        raise ToolError(f"Invalid types list '{given}'. Valid types are: {', '.join(_TYPES)}")
    return wanted


async def _delete(groups: Groups) -> None:
    ids = await groups.ids()
    failed: dict[str, BrokerFailure] = {}
    for each in ids:
        try:
            await groups.session.call(
                "deleteConsumerGroups(api=FIND_COORDINATOR)",
                lambda admin, group=each: admin.groups.delete_groups([group]),  # type: ignore[misc]
                groups.timeout_ms,
            )
        except BrokerFailure as problem:
            failed[each] = problem
    done = [each for each in ids if each not in failed]
    if not failed:
        print(f"Deletion of requested consumer groups ('{', '.join(done)}') was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for group, reason in failed.items():
        print(f"* Group '{group}' could not be deleted due to: {reason.of_future()}")
    if done:
        joined = "'".join(done)
        print(f"\nThese consumer groups were deleted successfully: '{joined}', '")


async def _describe(groups: Groups) -> None:
    from kafkalite.legacy.consumer_groups import tables as group_tables

    options = groups.options
    if options.has(tool.MEMBERS) and not options.has(tool.OFFSETS):
        await group_tables.print_members(groups, verbose=options.has(tool.VERBOSE))
    elif options.has(tool.STATE) and not options.has(tool.OFFSETS):
        await group_tables.print_states(groups)
    else:
        await group_tables.print_offsets(groups)


async def _reset_offsets(groups: Groups) -> None:
    from kafkalite.legacy.consumer_groups import resets as group_resets

    await group_resets.reset(groups)


async def _delete_offsets(groups: Groups) -> None:
    from kafkalite.legacy.consumer_groups import resets as group_resets

    await group_resets.delete_offsets(groups)


_ACTIONS: Final = {
    tool.LIST: _list,
    tool.DESCRIBE: _describe,
    tool.DELETE: _delete,
    tool.RESET_OFFSETS: _reset_offsets,
    tool.DELETE_OFFSETS: _delete_offsets,
}
