"""`kafkalite acl list|add|remove`: who may do what (KIP-11, KIP-290)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkalite.administration.acl_rows import acl_row
from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option, refuse
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.output import Exit, fail, format_count, note, output_option, write_rows
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

if TYPE_CHECKING:
    from kafkalite.client import Admin
    from kafkalite.client.errors import ClientError

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "token": ResourceType.DELEGATION_TOKEN,
    "user": ResourceType.USER,
}
_OPERATIONS: Final = [pascal_case(each) for each in Operation if each is not Operation.ANY]
_COLUMNS: Final = ["resource_type", "name", "pattern", "principal", "host", "operation", "permission"]


@click.group()
def acl() -> None:
    """Access control lists: who may do what. Brokers enforce them if authorizer.class.name is set."""


def _resource_options(command: CommandT) -> CommandT:
    """Add the options `--topic`, `--group`, … and `--cluster`."""
    for option in reversed(
        (
            click.option("--topic", metavar="NAME", help="A topic; * for all of them."),
            click.option("--group", metavar="NAME", help="A consumer group."),
            click.option("--transactional-id", metavar="ID", help="A producer's transactional id."),
            click.option("--token", metavar="ID", help="A delegation token."),
            click.option("--user", metavar="PRINCIPAL", help="A user whose tokens are created and described."),
            click.option("--cluster", is_flag=True, help="The cluster itself."),
        )
    ):
        command = option(command)
    return command


def _resource(given: dict[str, Any]) -> tuple[ResourceType, str] | None:
    """Return the resource that the options name, None when they name none."""
    named = [(kind, given[option]) for option, kind in _RESOURCES.items() if given[option] is not None]
    if given["cluster"]:
        named.append((ResourceType.CLUSTER, CLUSTER_NAME))
    if len(named) > 1:
        fail("give one of --topic, --group, --transactional-id, --token, --user and --cluster", Exit.USAGE)
    return named[0] if named else None


def _principal(text: str | None) -> str | None:
    """Return the principal, with the type User where none is given."""
    return text if text is None or ":" in text else f"User:{text}"


@acl.command("list")
@_resource_options
@click.option("--principal", help="Only rules of this one: User:name, or name.")
@click.option("--covering", is_flag=True, help="All rules that the name falls under, with prefixes and *.")
@bootstrap_option
@output_option()
def list_(principal: str | None, covering: bool, output: str, **given: Any) -> None:
    """List rules: all of them, or those of a resource."""
    type_, name = _resource(given) or (ResourceType.ANY, None)
    pattern = PatternType.MATCH if covering else PatternType.ANY
    wanted = AclFilter(type_, name, pattern, _principal(principal))
    found = ask_cluster(lambda admin: admin.describe_acls(wanted))
    write_rows([acl_row(each) for each in found], output, columns=_COLUMNS, name="name")


@acl.command(short_help="Allow a principal operations on a resource.")
@click.argument("principal")
@click.argument(
    "operations",
    nargs=-1,
    required=True,
    type=click.Choice(_OPERATIONS, case_sensitive=False),
    metavar="OPERATIONS...",
)
@_resource_options
@click.option("--prefix", is_flag=True, help="The name stands for all that begin with it.")
@click.option("--deny", is_flag=True, help="Forbid instead of allow; a denial wins over what allows.")
@click.option("--host", "hosts", multiple=True, metavar="ADDRESS", help="Only from here; several are possible.")
@click.option("--dry-run", is_flag=True, help="Only show what would be added.")
@bootstrap_option
def add(
    principal: str,
    operations: tuple[str, ...],
    prefix: bool,
    deny: bool,
    hosts: tuple[str, ...],
    dry_run: bool,
    **given: Any,
) -> None:
    """Allow PRINCIPAL (User:name, or name; * for everybody) OPERATIONS on a resource.

    Operations: All, Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite,
    CreateTokens, DescribeTokens.
    """
    resource = _resource(given)
    if resource is None:
        fail("give one of --topic, --group, --transactional-id, --token, --user and --cluster", Exit.USAGE)
    type_, name = resource
    wanted = [from_name(Operation, each) for each in operations]
    for each in wanted:
        if each not in (Operation.ALL, *SUPPORTED_OPERATIONS[type_]):
            supported = ", ".join(pascal_case(operation) for operation in SUPPORTED_OPERATIONS[type_])
            fail(f"{pascal_case(type_)} has no operation {pascal_case(each)}; it has {supported}", Exit.USAGE)
    pattern = ResourcePattern(type_, name, PatternType.PREFIXED if prefix else PatternType.LITERAL)
    permission = PermissionType.DENY if deny else PermissionType.ALLOW
    bindings = [
        AclBinding(pattern, AclEntry(_principal(principal) or "", host, operation, permission))
        for operation in dict.fromkeys(wanted)
        for host in hosts or (WILDCARD,)
    ]
    if dry_run:
        for binding in bindings:
            note(f"would be added: {binding}")
        return

    async def call(admin: Admin) -> dict[str, ClientError]:
        from kafkalite.client import AdminError

        try:
            await admin.create_acls(bindings)
        except AdminError as problem:
            return problem.failures
        return {}

    failures = ask_cluster(call)
    for binding in bindings:
        if str(binding) not in failures:
            note(str(binding))
    if failures:
        refuse(failures)


@acl.command()
@_resource_options
@click.option("--principal", help="Only rules of this one: User:name, or name.")
@click.option(
    "--operation",
    type=click.Choice(_OPERATIONS, case_sensitive=False),
    metavar="OPERATION",
    help="Only rules about it, such as Read.",
)
@click.option("--prefix", is_flag=True, help="The rules of the prefix of this name.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
def remove(principal: str | None, operation: str | None, prefix: bool, dry_run: bool, yes: bool, **given: Any) -> None:
    """Remove rules of a resource or of a principal. Asks first; a script must give --yes."""
    resource = _resource(given)
    if resource is None and principal is None:
        fail("say whose rules: name a resource, or --principal", Exit.USAGE)
    type_, name = resource or (ResourceType.ANY, None)
    pattern = PatternType.ANY if resource is None else PatternType.PREFIXED if prefix else PatternType.LITERAL
    wanted = AclFilter(type_, name, pattern, _principal(principal))
    if operation is not None:
        wanted = wanted._replace(operation=from_name(Operation, operation))
    found = ask_cluster(lambda admin: admin.describe_acls(wanted))
    for each in found:
        note(f"{'would be removed' if dry_run else 'to be removed'}: {each}")
    if dry_run or not found:
        return
    confirm(f"Remove {format_count(len(found), 'rule')}?", yes)
    removed = ask_cluster(lambda admin: admin.delete_acls([wanted]))
    note(f"removed {format_count(len(removed), 'rule')}")
