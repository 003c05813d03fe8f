"""The options of `kafka-configs`, and which of them go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.command_line.option_parser import Argument, Option, Options, declared_options, flag, text

ZOOKEEPER: Final = text("zookeeper")
BOOTSTRAP_SERVER: Final = text("bootstrap-server")
BOOTSTRAP_CONTROLLER: Final = text("bootstrap-controller")
COMMAND_CONFIG: Final = text("command-config")
ALTER: Final = flag("alter")
DESCRIBE: Final = flag("describe")
ALL: Final = flag("all")
ENTITY_TYPE: Final = text("entity-type")
ENTITY_NAME: Final = text("entity-name")
ENTITY_DEFAULT: Final = flag("entity-default")
ADD_CONFIG: Final = text("add-config")
ADD_CONFIG_FILE: Final = text("add-config-file")
DELETE_CONFIG: Final = Option("delete-config", Argument.REQUIRED, separator=",")
FORCE: Final = flag("force")
ZK_TLS_CONFIG_FILE: Final = text("zk-tls-config-file")
NAMED: Final = {
    text("topic"): "topics",
    text("client"): "clients",
    text("user"): "users",
    text("broker"): "brokers",
    text("broker-logger"): "broker-loggers",
    text("ip"): "ips",
}
DEFAULTS: Final = {
    flag("client-defaults"): "clients",
    flag("user-defaults"): "users",
    flag("broker-defaults"): "brokers",
    flag("ip-defaults"): "ips",
}
OPTIONS: Final = (*declared_options(vars()), *NAMED, *DEFAULTS)
_TYPES: Final = ("topics", "clients", "users", "brokers", "ips", "broker-loggers", "client-metrics")


def entity_types(options: Options) -> list[str]:
    return [*options.values(ENTITY_TYPE), *(kind for each, kind in (NAMED | DEFAULTS).items() if options.has(each))]


def entity_names(options: Options) -> list[str]:
    """Return the names in the order in which they were given; "" stands for the default of a type."""
    given = iter(options.values(ENTITY_NAME))
    positional = [
        next(given) if name == ENTITY_NAME.name else ""
        for name in options.order
        if name in (ENTITY_NAME.name, ENTITY_DEFAULT.name)
    ]
    named = [options.value(each) for each in NAMED if options.has(each)]
    return [*positional, *named, *("" for each in DEFAULTS if options.has(each))]


def check(options: Options) -> None:
    if options.has(ALTER) == options.has(DESCRIBE):
        options.refuse("Command must include exactly one action: --describe, --alter")
    options.forbid_with(DESCRIBE, [ADD_CONFIG, DELETE_CONFIG])
    types = entity_types(options)
    _check_types(options, types)
    _check_connection(options)
    _check_names(options, types)
    if options.has(ALTER):
        _check_alter(options, types)


def _check_types(options: Options, types: Sequence[str]) -> None:
    twice = [each for position, each in enumerate(types) if each in types[:position]]
    if twice:
        raise ToolError(f"Duplicate entity type(s) specified: {','.join(twice)}")
    over_brokers = options.has(BOOTSTRAP_SERVER) or options.has(BOOTSTRAP_CONTROLLER)
    allowed: tuple[str, ...] = _TYPES if over_brokers else ("users", "brokers")
    way = "--bootstrap-server or --bootstrap-controller" if over_brokers else "--zookeeper"
    for each in types:
        if each not in allowed:
            raise ToolError(
                f"Invalid entity type {each}, the entity type must be one of {', '.join(allowed)} with a {way} argument"
            )
    if not types:
        raise ToolError("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise ToolError("Only 'users' and 'clients' entity types may be specified together")
    if any(options.has(each) for each in (ENTITY_NAME, ENTITY_TYPE, ENTITY_DEFAULT)) and any(
        options.has(each) for each in (*NAMED, *DEFAULTS)
    ):
        raise ToolError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")


def _check_connection(options: Options) -> None:
    ways = sum(options.has(each) for each in (BOOTSTRAP_SERVER, BOOTSTRAP_CONTROLLER, ZOOKEEPER))
    if ways == 0:
        raise ToolError(
            "One of the required --bootstrap-server, --boostrap-controller, or --zookeeper arguments must be specified"
        )
    if ways > 1:
        raise ToolError("Only one of --bootstrap-server, --boostrap-controller, and --zookeeper can be specified")
    if options.has(ALL) and options.has(ZOOKEEPER):
        raise ToolError("--bootstrap-server must be specified for --all")
    if options.has(ZK_TLS_CONFIG_FILE) and not options.has(ZOOKEEPER):
        raise ToolError("Only the --zookeeper option can be used with the --zk-tls-config-file option.")


def _check_names(options: Options, types: Sequence[str]) -> None:
    names = entity_names(options)
    named = any(names)
    if named and ("brokers" in types or "broker-loggers" in types):
        for each in names:
            if each and not each.removeprefix("-").isdigit():
                raise ToolError(f"The entity name for {types[0]} must be a valid integer broker id, but it is: {each}")
    if named and "ips" in types:
        for each in names:
            if each and not _resolves(each):
                raise ToolError(
                    f"The entity name for {types[0]} must be a valid IP or resolvable host, but it is: {each}"
                )
    if options.has(DESCRIBE) and "broker-loggers" in types and not named:
        raise ToolError(f"an entity name must be specified with --describe of {','.join(types)}")


def _resolves(host: str) -> bool:
    import socket

    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def _check_alter(options: Options, types: Sequence[str]) -> None:
    names = entity_names(options)
    if {"users", "clients", "brokers", "ips"} & set(types):
        if not names:
            raise ToolError(
                "an entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
    elif not any(names):
        raise ToolError(f"an entity name must be specified with --alter of {','.join(types)}")
    if options.has(ADD_CONFIG) and options.has(ADD_CONFIG_FILE):
        raise ToolError("Only one of --add-config or --add-config-file must be specified")
    if not any(options.has(each) for each in (ADD_CONFIG, ADD_CONFIG_FILE, DELETE_CONFIG)):
        raise ToolError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
