"""ACLs added and removed, and passwords of users (SCRAM) set and taken away."""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite import NAME
from kafkalite.administration.acl_rows import acl_row
from kafkalite.console.actions.plan import Plan, Scene
from kafkalite.console.parameters import BadRequestError
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
    from kafkalite.console.parameters import Parameters

_COLUMNS: Final = ("principal", "permission", "operation", "resource_type", "name", "pattern", "host")
_OPTIONS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--token",
    ResourceType.USER: "--user",
}
_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_LEAST_PASSWORD: Final = 8
_Member = TypeVar("_Member", bound=IntEnum)


async def plan_new_rule(scene: Scene) -> Plan:
    """Plan an ACL: `principal`, `operation`, `resource_type` and `name`, `pattern`, `host`, `permission`."""
    binding = _binding(scene.asked)
    resource, entry = binding
    if entry.operation not in (Operation.ALL, *SUPPORTED_OPERATIONS[resource.type]):
        supported = ", ".join(map(pascal_case, SUPPORTED_OPERATIONS[resource.type]))
        raise BadRequestError(
            f"{pascal_case(resource.type)} has no operation {pascal_case(entry.operation)}; it has {supported}"
        )
    there = await scene.admin.describe_acls()
    if binding in there:
        raise BadRequestError(f"the rule is there already: {binding}")
    command = [NAME, "acl", "add", entry.principal, pascal_case(entry.operation), *_resource_words(resource)]
    command += ["--deny"] if entry.permission is PermissionType.DENY else []
    command += ["--host", entry.host] if entry.host != WILDCARD else []
    return Plan(_COLUMNS, [acl_row(binding)], (tuple(command),), partial(scene.admin.create_acls, [binding]))


async def plan_removal(scene: Scene) -> Plan:
    """Plan the end of one ACL, which is named by all its parts."""
    binding = _binding(scene.asked)
    resource, entry = binding
    there = await scene.admin.describe_acls()
    if binding not in there:
        raise BadRequestError(f"there is no such rule: {binding}")
    wanted = AclFilter(
        resource.type, resource.name, resource.pattern, entry.principal, entry.host, entry.operation, entry.permission
    )
    alike = [
        each
        for each in there
        if each.resource == resource
        and (each.entry.principal, each.entry.operation) == (entry.principal, entry.operation)
    ]
    command = [NAME, "acl", "remove", *_resource_words(resource), "--principal", entry.principal]
    command += ["--operation", pascal_case(entry.operation), "--yes"]
    if len(alike) > 1:  # it would remove these, too
        command = ["kafka-acls", "--remove", "--force", *_legacy_words(binding)]
    return Plan(
        _COLUMNS,
        [acl_row(binding)],
        (tuple(command),),
        partial(scene.admin.delete_acls, [wanted]),
    )


def _binding(asked: Parameters) -> AclBinding:
    """Return the ACL of a request. Raises BadRequestError."""
    principal = asked.text("principal", longest=1000).strip()
    if not principal:
        raise BadRequestError("say who may: principal is empty; write it like User:ann, or User:* for everybody")
    type_ = _member(ResourceType, asked, "resource_type", "Topic")
    name = CLUSTER_NAME if type_ is ResourceType.CLUSTER else asked.text("name", longest=1000).strip()
    if not name:
        raise BadRequestError(f"name is empty; name the {pascal_case(type_)}, or * for all of them")
    pattern = _member(PatternType, asked, "pattern", "Literal")
    return AclBinding(
        ResourcePattern(type_, name, pattern),
        AclEntry(
            principal if ":" in principal else f"User:{principal}",
            asked.text("host", longest=100).strip() or WILDCARD,
            _member(Operation, asked, "operation", "Read"),
            _member(PermissionType, asked, "permission", "Allow"),
        ),
    )


def _member(kind: type[_Member], asked: Parameters, parameter: str, default: str) -> _Member:
    """Return the member that a request names, of those that a rule may have."""
    members = [each for each in kind if each.name not in ("UNKNOWN", "ANY", "MATCH")]
    name = asked.one_of(parameter, [pascal_case(each) for each in members], default)
    return from_name(kind, name)


def _resource_words(resource: ResourcePattern) -> list[str]:
    words = ["--cluster"] if resource.type is ResourceType.CLUSTER else [_OPTIONS[resource.type], resource.name]
    return [*words, "--prefix"] if resource.pattern is PatternType.PREFIXED else words


def _legacy_words(binding: AclBinding) -> list[str]:
    """Return the words of Apache Kafka's tool, which names all parts of a rule."""
    resource, entry = binding
    is_deny = entry.permission is PermissionType.DENY
    words = ["--cluster"] if resource.type is ResourceType.CLUSTER else [_LEGACY[resource.type], resource.name]
    words += ["--resource-pattern-type", pascal_case(resource.pattern).lower()]
    words += [f"--{'deny' if is_deny else 'allow'}-principal", entry.principal]
    words += [f"--{'deny' if is_deny else 'allow'}-host", entry.host] if entry.host != WILDCARD else []
    return [*words, "--operation", pascal_case(entry.operation)]


_LEGACY: Final = {
    **_OPTIONS,
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}


async def plan_password(scene: Scene) -> Plan:
    """Plan a new password of `user` for `mechanism`; the user is made if there is none. The password leaves the console only as a salted
    hash, and is in no answer.
    """
    from kafkalite.client import ScramUpsertion

    user, mechanism, there = await _credential(scene)
    password = scene.asked.text("password", longest=1000)
    if len(password) < _LEAST_PASSWORD:
        raise BadRequestError(f"the password has {len(password)} characters; it needs {_LEAST_PASSWORD}")
    row: dict[str, Any] = {
        "user": user,
        "mechanism": mechanism,
        "change": "new password" if there else "new credential",
    }
    words = ("--alter", "--entity-type", "users", "--entity-name", user)
    change = ScramUpsertion(user, mechanism, password)
    return Plan(
        tuple(row),
        [row],
        (("kafka-configs", *words, "--add-config", f"{mechanism}=[password=…]"),),
        partial(scene.admin.alter_user_scram_credentials, [change]),
    )


async def plan_user_removal(scene: Scene) -> Plan:
    """Plan the end of the credential of `user` for `mechanism`."""
    from kafkalite.client import ScramDeletion

    user, mechanism, there = await _credential(scene)
    if not there:
        raise BadRequestError(f"user {user} has no credential for {mechanism}")
    row: dict[str, Any] = {"user": user, "mechanism": mechanism, "change": "deleted"}
    words = ("--alter", "--entity-type", "users", "--entity-name", user)
    return Plan(
        tuple(row),
        [row],
        (("kafka-configs", *words, "--delete-config", mechanism),),
        partial(scene.admin.alter_user_scram_credentials, [ScramDeletion(user, mechanism)]),
        (f"{user} cannot log in with {mechanism} any more; connections that are open stay until they end.",),
        confirm=user,
    )


async def _credential(scene: Scene) -> tuple[str, str, bool]:
    """Return user and mechanism of a request, and whether the user has a credential for it."""
    user = scene.name("user", "the user")
    mechanism = scene.asked.one_of("mechanism", _MECHANISMS, _MECHANISMS[0])
    known = (await scene.admin.describe_user_scram_credentials([user])).get(user, ())
    return user, mechanism, any(each.mechanism == mechanism for each in known)
