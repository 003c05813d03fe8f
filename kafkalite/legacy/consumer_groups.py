"""`kafka-consumer-groups`: list, describe and delete groups, delete and reset their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkalite.legacy.entry import print_failure, run_tool
from kafkalite.legacy.failures import BrokerFailure, TerseError, ToolError, UsageError
from kafkalite.legacy.option_parser import Argument, Option, Options, flag, long, text

if TYPE_CHECKING:
    from kafkalite.legacy.admin_session import AdminSession

TOOL: Final = "kafka-consumer-groups"
HEADLINE: Final = (
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, "
    "or reset consumer group offsets."
)

BOOTSTRAP_SERVER: Final = text("bootstrap-server")
GROUP: Final = text("group")
TOPIC: Final = text("topic")
ALL_TOPICS: Final = flag("all-topics")
LIST: Final = flag("list")
DESCRIBE: Final = flag("describe")
ALL_GROUPS: Final = flag("all-groups")
DELETE: Final = flag("delete")
TIMEOUT: Final = long("timeout", 5000)
COMMAND_CONFIG: Final = text("command-config")
RESET_OFFSETS: Final = flag("reset-offsets")
DELETE_OFFSETS: Final = flag("delete-offsets")
DRY_RUN: Final = flag("dry-run")
EXECUTE: Final = flag("execute")
EXPORT: Final = flag("export")
TO_OFFSET: Final = long("to-offset")
FROM_FILE: Final = text("from-file")
TO_DATETIME: Final = text("to-datetime")
BY_DURATION: Final = text("by-duration")
TO_EARLIEST: Final = flag("to-earliest")
TO_LATEST: Final = flag("to-latest")
TO_CURRENT: Final = flag("to-current")
SHIFT_BY: Final = long("shift-by")
MEMBERS: Final = flag("members")
VERBOSE: Final = flag("verbose")
OFFSETS: Final = flag("offsets")
STATE: Final = Option("state", Argument.OPTIONAL)
TYPE: Final = Option("type", Argument.OPTIONAL)

ACTIONS: Final = (LIST, DESCRIBE, DELETE, RESET_OFFSETS, DELETE_OFFSETS)
SCENARIOS: Final = (*(TO_OFFSET, SHIFT_BY, TO_DATETIME, BY_DURATION, TO_EARLIEST, TO_LATEST, TO_CURRENT, FROM_FILE),)
OPTIONS: Final = (
    *(BOOTSTRAP_SERVER, GROUP, TOPIC, ALL_TOPICS, ALL_GROUPS, TIMEOUT, COMMAND_CONFIG, DRY_RUN, EXECUTE, EXPORT),
    *(MEMBERS, VERBOSE, OFFSETS, STATE, TYPE),
    *ACTIONS,
    *SCENARIOS,
)
_AVAILABLE_WITH: Final = {
    MEMBERS: (DESCRIBE,),
    VERBOSE: (DESCRIBE,),
    OFFSETS: (DESCRIBE,),
    STATE: (DESCRIBE, LIST),
    TYPE: (LIST,),
}
_SCOPES: Final = (ALL_GROUPS, GROUP)
_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
_TYPES: Final = ("Consumer", "Classic")
_WIDTH: Final = 15


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        options = Options(TOOL, OPTIONS, arguments)
        _check_available(options)
    except UsageError as problem:
        raise _uncaught(problem) from None
    try:
        check(options)
        if sum(options.has(each) for each in ACTIONS) != 1:
            options.refuse(
                "Command must include exactly one action: "
                "--list, --describe, --delete, --reset-offsets, --delete-offsets"
            )
        return _serve(options)
    except ToolError as problem:
        if problem.java_class == "java.lang.IllegalArgumentException":
            options.refuse(problem.message or "")
        shown = problem.of_future() if isinstance(problem, BrokerFailure) else problem
        print_error(f"Executing consumer group command failed due to {shown.message}")
        print_failure(TerseError(str(shown)))
        return 0


def _uncaught(problem: ToolError) -> ToolError:
    """What Java says of an exception that nobody caught."""
    return TerseError(f'Exception in thread "main" {problem}')


def _serve(options: Options) -> int:
    from kafkalite.legacy.admin_session import admin_properties, with_admin

    properties = admin_properties(options.value(COMMAND_CONFIG), options.value(BOOTSTRAP_SERVER))
    action = _ACTIONS[next(each for each in ACTIONS if options.has(each))]
    with_admin(properties, lambda session: action(Groups(options, session)))
    return 0


def print_error(message: str) -> None:
    print(f"\nError: {message}")


def _check_available(options: Options) -> None:
    wrong = [each.name for each, needed in _AVAILABLE_WITH.items() if options.has(each) and not _any(options, needed)]
    if wrong and not options.asks_for_help:
        raise UsageError(
            f"Option(s) [{', '.join(wrong)}] are unavailable given other options on the command line",
            "joptsimple.UnavailableOptionException",
        )


def _any(options: Options, wanted: Sequence[Option]) -> bool:
    return any(options.has(each) for each in wanted)


def check(options: Options) -> None:
    options.print_help_or_version(HEADLINE)
    options.require(BOOTSTRAP_SERVER)
    if options.has(DESCRIBE):
        _check_describe(options)
    if options.has(DELETE):
        if not _any(options, (GROUP, ALL_GROUPS)):
            options.refuse(f"Option {DELETE} takes one of these options: {_listed(_SCOPES)}")
        if options.has(TOPIC):
            options.refuse("The consumer does not support topic-specific offset deletion from a consumer group.")
    if options.has(DELETE_OFFSETS) and not (options.has(GROUP) and options.has(TOPIC)):
        options.refuse(f"Option {DELETE_OFFSETS} takes the following options: {_listed(_SCOPES)}")
    if options.has(RESET_OFFSETS):
        _check_reset(options)
    options.forbid_with(GROUP, [ALL_GROUPS])
    options.forbid_with(GROUP, [LIST])
    options.forbid_with(TOPIC, [LIST, DESCRIBE])


def _listed(options: Sequence[Option]) -> str:
    return ", ".join(map(str, options))


def _check_describe(options: Options) -> None:
    if not _any(options, (GROUP, ALL_GROUPS)):
        options.refuse(
            f"Option {DESCRIBE} takes one of these options: {_listed((RESET_OFFSETS, DESCRIBE, DELETE, LIST))}"
        )
    exclusive = (MEMBERS, OFFSETS, STATE)
    if sum(options.has(each) for each in exclusive) > 1:
        options.refuse(f"Option {DESCRIBE} takes at most one of these options: {_listed(exclusive)}")
    if options.has_value(STATE):
        options.refuse(f"Option {DESCRIBE} does not take a value for {STATE}")


def _check_reset(options: Options) -> None:
    import sys

    if options.has(DRY_RUN) and options.has(EXECUTE):
        options.refuse(f"Option {RESET_OFFSETS} only accepts one of {EXECUTE} and {DRY_RUN}")
    if not options.has(DRY_RUN) and not options.has(EXECUTE):
        print(
            "WARN: No action will be performed as the --execute option is missing."
            "In a future major release, the default behavior of this command will be to prompt the user before "
            "executing the reset rather than doing a dry run. You should add the --dry-run option explicitly "
            "if you are scripting this command and want to keep the current default behavior without prompting.",
            file=sys.stderr,
        )
    if not _any(options, (GROUP, ALL_GROUPS)):
        options.refuse(f"Option {RESET_OFFSETS} takes one of these options: {_listed(_SCOPES)}")
    for each in (TO_OFFSET, TO_DATETIME, BY_DURATION, TO_EARLIEST, TO_LATEST, TO_CURRENT, SHIFT_BY, FROM_FILE):
        options.forbid_with(each, [other for other in SCENARIOS if other is not each])


class Groups:
    """The groups of one command, and the calls that it makes for them."""

    def __init__(self, options: Options, session: AdminSession) -> None:
        self.options, self.session = options, session
        self.timeout_ms: int = options.value(TIMEOUT)

    async def ids(self) -> list[str]:
        return await self.all_ids() if self.options.has(ALL_GROUPS) else list(dict.fromkeys(self.options.values(GROUP)))

    async def all_ids(self) -> list[str]:
        try:
            return [each.group_id for each in await self.listed(())]
        except BrokerFailure as problem:
            raise in_runtime_exception(problem) from None

    async def listed(self, states: Sequence[str]) -> list[Any]:
        from kafkalite.errors import ErrorCode

        try:
            return await self.session.call(
                "findAllBrokers", lambda admin: admin.groups.list_groups(states), self.timeout_ms
            )
        except BrokerFailure as problem:
            if problem.code != ErrorCode.REQUEST_TIMED_OUT:
                raise
            message = "Failed to find brokers to send ListGroups"
            raise BrokerFailure(problem.code, message, "org.apache.kafka.common.KafkaException") from None

    async def described(self) -> dict[str, Any]:
        ids = await self.ids()
        name = "describeConsumerGroups(api=FIND_COORDINATOR)"
        found = await self.session.call(name, lambda admin: admin.groups.describe_groups(ids), self.timeout_ms)
        return dict(sorted(found.items()))


def in_runtime_exception(problem: BrokerFailure) -> ToolError:
    """As Kafka wraps what a future threw."""
    return ToolError(str(problem.of_future()), "java.lang.RuntimeException")


# listing and deleting


async def _list(groups: Groups) -> None:
    options = groups.options
    with_type, with_state = options.has(TYPE), options.has(STATE)
    if not with_type and not with_state:
        for each in await groups.all_ids():
            print(each)
        return
    types, states = _types(options.value(TYPE)), _states(options.value(STATE))
    found = [each for each in await groups.listed(states) if not types or each.group_type.lower() in types]
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
    from kafkalite.legacy import group_tables

    options = groups.options
    if options.has(MEMBERS) and not options.has(OFFSETS):
        await group_tables.print_members(groups, verbose=options.has(VERBOSE))
    elif options.has(STATE) and not options.has(OFFSETS):
        await group_tables.print_states(groups)
    else:
        await group_tables.print_offsets(groups)


async def _reset_offsets(groups: Groups) -> None:
    from kafkalite.legacy import group_resets

    await group_resets.reset(groups)


async def _delete_offsets(groups: Groups) -> None:
    from kafkalite.legacy import group_resets

    await group_resets.delete_offsets(groups)


_ACTIONS: Final = {
    LIST: _list,
    DESCRIBE: _describe,
    DELETE: _delete,
    RESET_OFFSETS: _reset_offsets,
    DELETE_OFFSETS: _delete_offsets,
}
