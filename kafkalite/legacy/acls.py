"""`kafka-acls`: list, add and remove ACLs, through brokers or, with `--authorizer-properties`, in ZooKeeper.

Kafka prints the operations of a resource, and several ACLs, in hash order; here they are sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.command_line.option_parser import Argument, Option, Options, declared_options, flag, text
from kafkalite.security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    from_name,
    pascal_case,
)

TOOL: Final = "kafka-acls"
HEADLINE: Final = "This tool helps to manage acls on kafka."
_DEPRECATED: Final = (
    "Warning: support for ACL configuration directly through the authorizer is deprecated and will be removed in a "
    "future release. Please use --bootstrap-server instead to set ACLs through the admin client."
)
BOOTSTRAP_SERVER: Final = text("bootstrap-server")
COMMAND_CONFIG: Final = Option("command-config", Argument.OPTIONAL)
AUTHORIZER: Final = text("authorizer")
AUTHORIZER_PROPERTIES: Final = text("authorizer-properties")
TOPIC: Final = text("topic")
CLUSTER: Final = flag("cluster")
GROUP: Final = text("group")
TRANSACTIONAL_ID: Final = text("transactional-id")
IDEMPOTENT: Final = flag("idempotent")
DELEGATION_TOKEN: Final = text("delegation-token")
PATTERN_TYPE: Final = Option(
    "resource-pattern-type", Argument.REQUIRED, lambda word: from_name(PatternType, word), PatternType.LITERAL.name
)
ADD, REMOVE, LIST = flag("add"), flag("remove"), flag("list")
OPERATION: Final = text("operation", "All")
ALLOW_PRINCIPAL: Final = text("allow-principal")
DENY_PRINCIPAL: Final = text("deny-principal")
PRINCIPAL: Final = Option("principal", Argument.OPTIONAL)
ALLOW_HOST: Final = text("allow-host")
DENY_HOST: Final = text("deny-host")
PRODUCER, CONSUMER, FORCE = flag("producer"), flag("consumer"), flag("force")
ZK_TLS_CONFIG_FILE: Final = text("zk-tls-config-file")
USER_PRINCIPAL: Final = text("user-principal")
OPTIONS: Final = declared_options(vars())
_NO_RESOURCE: Final = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or --delegation-token "
    "<Delegation Token ID>"
)
_RESOURCES: Final = (
    (TOPIC, ResourceType.TOPIC),
    (GROUP, ResourceType.GROUP),
    (TRANSACTIONAL_ID, ResourceType.TRANSACTIONAL_ID),
    (DELEGATION_TOKEN, ResourceType.DELEGATION_TOKEN),
    (USER_PRINCIPAL, ResourceType.USER),
)

Rules: TypeAlias = dict[ResourcePattern, list[AclEntry]]
"""ACL entries by resource pattern."""


class Acls(Protocol):
    """A store of ACLs: brokers, or ZooKeeper."""

    async def create(self, resource: ResourcePattern, entries: list[AclEntry]) -> None: ...

    async def delete(self, filters: list[AclFilter]) -> None: ...

    async def find(self, wanted: AclFilter) -> list[AclBinding]: ...


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = Options(TOOL, OPTIONS, arguments)
    options.print_help_or_version(HEADLINE)
    _check(options)
    action = _add if options.has(ADD) else _remove if options.has(REMOVE) else _list
    try:
        _with_acls(options, lambda acls: action(options, acls))
    except ToolError as problem:
        shown = problem.of_future()
        print(
            f"Error while executing ACL command: {shown}"
            if shown is not problem
            else f"Error while executing ACL command: {problem.message}"
        )
        print(f"{shown}\n")
        return 1
    return 0


def _check(options: Options) -> None:
    if options.has(BOOTSTRAP_SERVER) and options.has(AUTHORIZER):
        options.refuse("Only one of --bootstrap-server or --authorizer must be specified")
    if not options.has(BOOTSTRAP_SERVER):
        options.require(AUTHORIZER_PROPERTIES)
        import sys

        print(_DEPRECATED, file=sys.stderr)
    if options.has(COMMAND_CONFIG) and not options.has(BOOTSTRAP_SERVER):
        options.refuse("The --command-config option can only be used with --bootstrap-server option")
    if options.has(AUTHORIZER_PROPERTIES) and options.has(BOOTSTRAP_SERVER):
        options.refuse("The --authorizer-properties option can only be used with --authorizer option")
    if sum(map(options.has, (ADD, REMOVE, LIST))) != 1:
        options.refuse("Command must include exactly one action: --list, --add, --remove. ")
    options.forbid_with(LIST, (PRODUCER, CONSUMER, ALLOW_HOST, ALLOW_PRINCIPAL, DENY_HOST, DENY_PRINCIPAL))
    options.forbid_with(PRODUCER, (OPERATION, DENY_PRINCIPAL, DENY_HOST))
    options.forbid_with(CONSUMER, (OPERATION, DENY_PRINCIPAL, DENY_HOST))
    if options.has(PRINCIPAL) and not options.has(LIST):
        options.refuse("The --principal option is only available if --list is set")
    if options.has(PRODUCER) and not options.has(TOPIC):
        options.refuse("With --producer you must specify a --topic")
    if options.has(IDEMPOTENT) and not options.has(PRODUCER):
        options.refuse("The --idempotent option is only available if --producer is set")
    is_whole = options.has(TOPIC) and options.has(GROUP)
    has_more = not options.has(PRODUCER) and (options.has(CLUSTER) or options.has(TRANSACTIONAL_ID))
    if options.has(CONSUMER) and (not is_whole or has_more):
        options.refuse(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


# Actions


async def _add(options: Options, acls: Acls) -> None:
    pattern = _pattern(options)
    if pattern in (PatternType.ANY, PatternType.MATCH):
        options.refuse(f"A '--resource-pattern-type' value of '{pattern.name}' is not valid when adding acls.")
    wanted = _rules(options)
    if not all(wanted.values()):
        options.refuse("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    for resource, entries in wanted.items():
        print(f"Adding ACLs for resource `{_format_resource(resource)}`: \n {_format_entries(entries)} \n")
        await acls.create(resource, entries)


async def _remove(options: Options, acls: Acls) -> None:
    for resource, entries in _rules(options).items():
        if not entries:
            asked = (
                f"Are you sure you want to delete all ACLs for resource filter `{_format_resource(resource)}`? (y/n)"
            )
        else:
            asked = (
                f"Are you sure you want to remove ACLs: \n {_format_entries(entries)} \n from resource filter "
                f"`{_format_resource(resource)}`? (y/n)"
            )
        if not options.has(FORCE):
            print(asked, flush=True)
            if input().lower() != "y":
                continue
        whole = AclFilter(resource.type, resource.name, resource.pattern)
        await acls.delete([AclFilter(*resource)._replace(**entry._asdict()) for entry in entries] or [whole])


async def _list(options: Options, acls: Acls) -> None:
    wanted = [AclFilter(each.type, each.name, each.pattern) for each in _resources(options)] or [AclFilter()]
    found: dict[ResourcePattern, dict[AclEntry, None]] = {}
    for each in wanted:
        for resource, entry in await acls.find(each):
            found.setdefault(resource, {})[entry] = None
    if not options.has(PRINCIPAL):
        _print(found)
    for principal in _principals(options, PRINCIPAL):
        print(f"ACLs for principal `{principal}`")
        _print({r: [each for each in entries if each.principal == principal] for r, entries in found.items()})


def _print(found: Mapping[ResourcePattern, Iterable[AclEntry]]) -> None:
    for resource, entries in found.items():
        if entries:
            print(f"Current ACLs for resource `{_format_resource(resource)}`: \n {_format_entries(entries)} \n")


def _format_resource(resource: ResourcePattern) -> str:
    return (
        f"ResourcePattern(resourceType={resource.type.name}, name={resource.name}, patternType={resource.pattern.name})"
    )


def _format_entries(entries: Iterable[AclEntry]) -> str:
    return "\n".join(
        f"\t(principal={each.principal}, host={each.host}, operation={each.operation.name}, "
        f"permissionType={each.permission.name})"
        for each in entries
    )


# What the options mean


def _rules(options: Options) -> Rules:
    """Return the ACLs to add or remove; a resource without entries stands for all of its ACLs."""
    found: Rules = {}
    if not options.has(PRODUCER) and not options.has(CONSUMER):
        try:
            operations = [from_name(Operation, each.strip()) for each in options.values(OPERATION)]
        except ValueError:
            operations = []
        unknown = not operations
        entries = _entries(options, operations or [Operation.ANY])
        for resource in _require_resources(options):
            found[resource] = entries
        if unknown and entries:
            _refuse_operation(options, next(iter(found)))
    if options.has(PRODUCER):
        for resource in _require_resources(options):
            if resource.type is ResourceType.TOPIC:
                found[resource] = _entries(options, [Operation.WRITE, Operation.DESCRIBE, Operation.CREATE])
            elif resource.type is ResourceType.TRANSACTIONAL_ID:
                found[resource] = _entries(options, [Operation.WRITE, Operation.DESCRIBE])
        if options.has(IDEMPOTENT):
            found[ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)] = _entries(options, [Operation.IDEMPOTENT_WRITE])
    if options.has(CONSUMER):
        for resource in _require_resources(options):
            more: list[AclEntry] = []
            if resource.type is ResourceType.TOPIC:
                more = _entries(options, [Operation.READ, Operation.DESCRIBE])
            elif resource.type is ResourceType.GROUP:
                more = _entries(options, [Operation.READ])
            if more or resource.type in (ResourceType.TOPIC, ResourceType.GROUP):
                found[resource] = list(dict.fromkeys((*more, *found.get(resource, ()))))
    for resource, entries in found.items():
        if any(each.operation not in (*SUPPORTED_OPERATIONS[resource.type], Operation.ALL) for each in entries):
            _refuse_operation(options, resource)
    return found


def _refuse_operation(options: Options, resource: ResourcePattern) -> None:
    valid = ", ".join(pascal_case(each) for each in (*SUPPORTED_OPERATIONS[resource.type], Operation.ALL))
    options.refuse(f"ResourceType {resource.type.name} only supports operations {valid}")


def _entries(options: Options, operations: Iterable[Operation]) -> list[AclEntry]:
    operations = list(dict.fromkeys(operations))
    return [
        AclEntry(principal, host, operation, permission)
        for principals, hosts, permission in (
            (ALLOW_PRINCIPAL, ALLOW_HOST, PermissionType.ALLOW),
            (DENY_PRINCIPAL, DENY_HOST, PermissionType.DENY),
        )
        for principal in _principals(options, principals)
        for operation in operations
        for host in dict.fromkeys(each.strip() for each in options.values(hosts) or [WILDCARD])
    ]


def _principals(options: Options, option: Option) -> list[str]:
    found = [each.strip() for each in options.values(option)]
    for each in found:
        if ":" not in each:
            raise ToolError(f"expected a string in format principalType:principalName but got {each}")
    return list(dict.fromkeys(found))


def _require_resources(options: Options) -> list[ResourcePattern]:
    found = _resources(options)
    if not found:
        options.refuse(_NO_RESOURCE)
    return found


def _pattern(options: Options) -> PatternType:
    given = options.value(PATTERN_TYPE)
    return given if isinstance(given, PatternType) else PatternType.LITERAL


def _resources(options: Options) -> list[ResourcePattern]:
    pattern = _pattern(options)
    found = [ResourcePattern(ResourceType.TOPIC, each.strip(), pattern) for each in options.values(TOPIC)]
    if pattern is PatternType.LITERAL and (options.has(CLUSTER) or options.has(IDEMPOTENT)):
        found.append(ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME))
    found += [
        ResourcePattern(type_, each.strip(), pattern)
        for option, type_ in _RESOURCES[1:]
        for each in options.values(option)
    ]
    return list(dict.fromkeys(found))


# Where the ACLs are


def _with_acls(options: Options, work: Callable[[Acls], Coroutine[Any, Any, None]]) -> None:
    if options.has(BOOTSTRAP_SERVER):
        from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin

        properties = admin_properties(options.value(COMMAND_CONFIG), options.value(BOOTSTRAP_SERVER))
        with_admin(properties, lambda session: work(_OfBrokers(session)))
        return
    from kafkalite.legacy.cluster.zookeeper_store import tool_security, with_store

    given = dict(each.partition("=")[::2] for each in options.values(AUTHORIZER_PROPERTIES))
    connect = given.get("zookeeper.connect", "")
    if not connect:
        raise ToolError(
            "Missing required configuration `zookeeper.connect` which has no default value.",
            "org.apache.kafka.common.config.ConfigException",
        )
    security = tool_security(options.value(ZK_TLS_CONFIG_FILE))
    with_store(connect, lambda store: work(_OfZooKeeper(store)), security)


class _OfBrokers:
    """ACLs through brokers."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def create(self, resource: ResourcePattern, entries: list[AclEntry]) -> None:
        bindings = [AclBinding(resource, each) for each in entries]
        await self._session.call("createAcls", lambda admin: admin.acls.create_acls(bindings))

    async def delete(self, filters: list[AclFilter]) -> None:
        await self._session.call("deleteAcls", lambda admin: admin.acls.delete_acls(filters))

    async def find(self, wanted: AclFilter) -> list[AclBinding]:
        found: list[AclBinding] = await self._session.call(
            "describeAcls", lambda admin: admin.acls.describe_acls(wanted)
        )
        return found


class _OfZooKeeper:
    """ACLs in their znodes, through an authorizer of this process."""

    def __init__(self, store: Any) -> None:
        from kafkalite.controller.acls import AclZnodes

        self._znodes = AclZnodes(store)

    async def create(self, resource: ResourcePattern, entries: list[AclEntry]) -> None:
        await self._znodes.create_parents()
        await self._znodes.update(resource, lambda current: current | set(entries))

    async def delete(self, filters: list[AclFilter]) -> None:
        named = [each for wanted in filters for each in wanted.named_patterns]
        for resource in dict.fromkeys([each async for each in self._znodes.resources()] + named):
            takers = [each for each in filters if each.matches_resource(resource)]
            if takers:
                await self._znodes.update(resource, lambda current, takers=takers: _without(current, takers))  # type: ignore[misc]

    async def find(self, wanted: AclFilter) -> list[AclBinding]:
        return [
            AclBinding(resource, entry)
            async for resource in self._znodes.resources()
            if wanted.matches_resource(resource)
            for entry in sorted((await self._znodes.read(resource)).entries)
        ]


def _without(entries: frozenset[AclEntry], takers: list[AclFilter]) -> frozenset[AclEntry]:
    return frozenset(each for each in entries if not any(taker.matches_entry(each) for taker in takers))
