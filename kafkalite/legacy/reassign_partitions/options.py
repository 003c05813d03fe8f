"""The options of `kafka-reassign-partitions`, and which of them go together."""

from __future__ import annotations

from typing import Final

from kafkalite.legacy.command_line.option_parser import Option, Options, declared_options, flag, long, text

HEADLINE: Final = "This tool helps to move topic partitions between replicas."

VERIFY: Final = flag("verify")
GENERATE: Final = flag("generate")
EXECUTE: Final = flag("execute")
CANCEL: Final = flag("cancel")
LIST: Final = flag("list")
BOOTSTRAP_SERVER: Final = text("bootstrap-server")
COMMAND_CONFIG: Final = text("command-config")
REASSIGNMENT_JSON_FILE: Final = text("reassignment-json-file")
TOPICS_TO_MOVE_JSON_FILE: Final = text("topics-to-move-json-file")
BROKER_LIST: Final = text("broker-list")
DISABLE_RACK_AWARE: Final = flag("disable-rack-aware")
THROTTLE: Final = long("throttle", -1)
LOG_DIRS_THROTTLE: Final = long("replica-alter-log-dirs-throttle", -1)
TIMEOUT: Final = long("timeout", 10_000)
ADDITIONAL: Final = flag("additional")
PRESERVE_THROTTLES: Final = flag("preserve-throttles")

ACTIONS: Final = (GENERATE, EXECUTE, VERIFY, CANCEL, LIST)
OPTIONS: Final = declared_options(vars())
ZOOKEEPER: Final = text("zookeeper")
"""An option of 2.8 that 3.0 removed. It still works, but no help names it."""
_REQUIRED: Final[dict[Option, tuple[Option, ...]]] = {
    VERIFY: (REASSIGNMENT_JSON_FILE,),
    GENERATE: (TOPICS_TO_MOVE_JSON_FILE, BROKER_LIST),
    EXECUTE: (REASSIGNMENT_JSON_FILE,),
    CANCEL: (REASSIGNMENT_JSON_FILE,),
    LIST: (),
}
_EVERYWHERE: Final = (BOOTSTRAP_SERVER, ZOOKEEPER, COMMAND_CONFIG)
_PERMITTED: Final[dict[Option, tuple[Option, ...]]] = {
    VERIFY: (PRESERVE_THROTTLES,),
    GENERATE: (DISABLE_RACK_AWARE,),
    EXECUTE: (ADDITIONAL, THROTTLE, LOG_DIRS_THROTTLE, TIMEOUT),
    CANCEL: (PRESERVE_THROTTLES, TIMEOUT),
    LIST: (),
}


def check(options: Options) -> None:
    options.print_help_or_version(HEADLINE)
    wanted = [each for each in ACTIONS if options.has(each)]
    if len(wanted) != 1:
        options.refuse(f"Command must include exactly one action: {', '.join(f'--{each.name}' for each in ACTIONS)}")
    (action,) = wanted
    if not options.has(BOOTSTRAP_SERVER) and not options.has(ZOOKEEPER):
        options.refuse("Please specify --bootstrap-server")
    options.require(*_REQUIRED[action])
    allowed = {each.name for each in (action, *_REQUIRED[action], *_PERMITTED[action], *_EVERYWHERE)}
    for name in options.order:
        if name not in allowed:
            options.refuse(f'Option "[{name}]" can\'t be used with action "{action}"')
