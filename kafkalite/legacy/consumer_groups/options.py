"""The options of `kafka-consumer-groups`, and which of them go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkalite.legacy.command_line.failures import UsageError
from kafkalite.legacy.command_line.option_parser import Argument, Option, Options, declared_options, flag, long, text

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
SCENARIOS: Final = (TO_OFFSET, SHIFT_BY, TO_DATETIME, BY_DURATION, TO_EARLIEST, TO_LATEST, TO_CURRENT, FROM_FILE)
OPTIONS: Final = declared_options(vars())
ZOOKEEPER: Final = text("zookeeper")
OLD_OPTIONS: Final = (ZOOKEEPER,)
"""Options of 1.1 that 2.0 removed. They still work, but no help names them."""
_AVAILABLE_WITH: Final = {
    MEMBERS: (DESCRIBE,),
    VERBOSE: (DESCRIBE,),
    OFFSETS: (DESCRIBE,),
    STATE: (DESCRIBE, LIST),
    TYPE: (LIST,),
}
_SCOPES: Final = (ALL_GROUPS, GROUP)


def check_available(options: Options) -> None:
    wrong = [
        each.name for each, needed in _AVAILABLE_WITH.items() if options.has(each) and not options.has_any(*needed)
    ]
    if wrong and not options.asks_for_help:
        raise UsageError(
            f"Option(s) [{', '.join(wrong)}] are unavailable given other options on the command line",
            "joptsimple.UnavailableOptionException",
        )


def check(options: Options) -> None:
    options.print_help_or_version(HEADLINE)
    if options.has(ZOOKEEPER):
        _check_zookeeper(options)
        return
    options.require(BOOTSTRAP_SERVER)
    if options.has(DESCRIBE):
        _check_describe(options)
    if options.has(DELETE):
        if not options.has_any(GROUP, ALL_GROUPS):
            options.refuse(f"Option {DELETE} takes one of these options: {_join_options(_SCOPES)}")
        if options.has(TOPIC):
            options.refuse("The consumer does not support topic-specific offset deletion from a consumer group.")
    if options.has(DELETE_OFFSETS) and not (options.has(GROUP) and options.has(TOPIC)):
        options.refuse(f"Option {DELETE_OFFSETS} takes the following options: {_join_options(_SCOPES)}")
    if options.has(RESET_OFFSETS):
        _check_reset(options)
    options.forbid_with(GROUP, [ALL_GROUPS])
    options.forbid_with(GROUP, [LIST])
    options.forbid_with(TOPIC, [LIST, DESCRIBE])


def _check_zookeeper(options: Options) -> None:
    """Refuse what 1.1 refused, and --reset-offsets, which 1.1 accepted and failed at (UnsupportedOperationException of
    ZkConsumerGroupService).
    """
    if options.has(BOOTSTRAP_SERVER):
        options.refuse(f"Option {BOOTSTRAP_SERVER} is not valid with {ZOOKEEPER}.")
    for each in (RESET_OFFSETS, DELETE_OFFSETS, MEMBERS, STATE, OFFSETS, ALL_GROUPS):
        options.forbid_with(each, [ZOOKEEPER])
    if options.has(DESCRIBE):
        options.require(GROUP)
    if options.has(DELETE) and not options.has_any(GROUP, TOPIC):
        options.refuse(f"Option {DELETE} either takes {GROUP}, {TOPIC}, or both")


def _join_options(options: Sequence[Option]) -> str:
    return ", ".join(map(str, options))


def _check_describe(options: Options) -> None:
    if not options.has_any(GROUP, ALL_GROUPS):
        options.refuse(
            f"Option {DESCRIBE} takes one of these options: {_join_options((RESET_OFFSETS, DESCRIBE, DELETE, LIST))}"
        )
    exclusive = (MEMBERS, OFFSETS, STATE)
    if sum(options.has(each) for each in exclusive) > 1:
        options.refuse(f"Option {DESCRIBE} takes at most one of these options: {_join_options(exclusive)}")
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
    if not options.has_any(GROUP, ALL_GROUPS):
        options.refuse(f"Option {RESET_OFFSETS} takes one of these options: {_join_options(_SCOPES)}")
    for each in (TO_OFFSET, TO_DATETIME, BY_DURATION, TO_EARLIEST, TO_LATEST, TO_CURRENT, SHIFT_BY, FROM_FILE):
        options.forbid_with(each, [other for other in SCENARIOS if other is not each])
