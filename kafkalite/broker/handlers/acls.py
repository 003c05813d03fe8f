"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): who may do what, kept in ZooKeeper (KIP-140).

- 1 pattern types (KIP-290); 2 flexible; 3 the resource type of users, for delegation tokens.
- A part that stands for "unknown" closes the connection, as in Kafka.
- SECURITY_DISABLED where no authorizer is configured.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.identity.authorizer import ALTER_CLUSTER, DESCRIBE_CLUSTER, Operation, ResourceType
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError, ProtocolViolation
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.security.acl import (
    CLUSTER_NAME,
    AclEntry,
    AclFilter,
    PatternType,
    PermissionType,
    ResourcePattern,
)

if TYPE_CHECKING:
    from kafkalite.broker.identity.acl_authorizer import AclAuthorizer, Deleted

_UNKNOWN = 0
_NO_AUTHORIZER: Final = "No Authorizer is configured."


class Parts(Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def acls(self) -> AclAuthorizer | None: ...


async def describe_acls(
    parts: Parts, request: messages.DescribeAclsRequest, context: RequestContext
) -> messages.DescribeAclsResponse:
    """Return the ACLs that the filter matches, by resource pattern."""
    _require_known_filter(request)
    if parts.acls is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    found = await context.portions.finish(parts.acls.find(_read_filter(request)))
    return await context.portions.finish(_make_description(found))


def _make_description(found: dict[ResourcePattern, list[AclEntry]]) -> Work[messages.DescribeAclsResponse]:
    m = messages.describe_acls_response
    resources = []
    for resource, entries in found.items():
        yield
        acls = []
        for each in entries:
            yield
            acls.append(
                m.AclDescription(
                    principal=each.principal,
                    host=each.host,
                    operation=each.operation,
                    permission_type=each.permission,
                )
            )
        resources.append(
            m.DescribeAclsResource(
                resource_type=resource.type, resource_name=resource.name, pattern_type=resource.pattern, acls=acls
            )
        )
    return m.DescribeAclsResponse(resources=resources)


async def create_acls(
    parts: Parts, request: messages.CreateAclsRequest, context: RequestContext
) -> messages.CreateAclsResponse:
    """Create ACLs and return the outcome of each; those of one resource pattern are written together."""
    m = messages.create_acls_response
    for each in request.creations:
        _require_known([each.resource_type, each.resource_pattern_type, each.operation, each.permission_type])
    if parts.acls is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)
    results = [m.AclCreationResult() for _ in request.creations]
    by_resource: dict[ResourcePattern, list[tuple[int, AclEntry]]] = {}
    pace = context.portions.pace()
    for number, each in enumerate(request.creations):
        await pace.unit()
        try:
            resource, entry = _read_creation(each)
            by_resource.setdefault(resource, []).append((number, entry))
        except KafkaError as problem:
            results[number].error_code, results[number].error_message = problem.code, problem.message
    for resource, numbered in by_resource.items():
        await pace.unit(len(numbered))
        try:
            await parts.acls.create(resource, [entry for _, entry in numbered])
        except KafkaError as problem:
            for number, _ in numbered:
                results[number].error_code, results[number].error_message = problem.code, problem.message
    return m.CreateAclsResponse(results=results)


def _read_creation(creation: messages.create_acls_request.AclCreation) -> tuple[ResourcePattern, AclEntry]:
    """Return the ACL of a creation. Raises KafkaError INVALID_REQUEST for what is none."""
    name = creation.resource_name
    if creation.resource_type == ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    try:
        resource = ResourcePattern(
            ResourceType(creation.resource_type), name, PatternType(creation.resource_pattern_type)
        )
        entry = AclEntry(
            creation.principal, creation.host, Operation(creation.operation), PermissionType(creation.permission_type)
        )
    except ValueError as problem:
        raise ProtocolViolation(f"an access rule: {problem}") from None
    is_filter = ResourceType.ANY in resource[:1] or resource.pattern < PatternType.LITERAL
    is_filter = is_filter or entry.operation is Operation.ANY or entry.permission is PermissionType.ANY
    if is_filter or "/" in name or ":" not in entry.principal:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")
    return resource, entry


async def delete_acls(
    parts: Parts, request: messages.DeleteAclsRequest, context: RequestContext
) -> messages.DeleteAclsResponse:
    """Return the rules that each filter deleted."""
    for each in request.filters:
        _require_known_filter(each)
    if parts.acls is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)
    outcomes = await parts.acls.delete([_read_filter(each) for each in request.filters], context.portions.pace())
    return await context.portions.finish(_make_deletion_response(outcomes))


def _make_deletion_response(outcomes: list[Deleted]) -> Work[messages.DeleteAclsResponse]:
    m = messages.delete_acls_response
    results = []
    for outcome in outcomes:
        yield
        matching = []
        for binding in outcome.bindings:
            yield
            resource, entry = binding
            problem = outcome.problems.get(binding)
            matching.append(
                m.DeleteAclsMatchingAcl(
                    error_code=problem.code if problem else ErrorCode.NONE,
                    error_message=problem.message if problem else None,
                    resource_type=resource.type,
                    resource_name=resource.name,
                    pattern_type=resource.pattern,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
            )
        results.append(m.DeleteAclsFilterResult(matching_acls=matching))
    return m.DeleteAclsResponse(filter_results=results)


def _read_filter(asked: messages.DescribeAclsRequest | messages.delete_acls_request.DeleteAclsFilter) -> AclFilter:
    """Return the filter. Raises ProtocolViolation for numbers that mean nothing."""
    try:
        return AclFilter(
            ResourceType(asked.resource_type_filter),
            asked.resource_name_filter,
            PatternType(asked.pattern_type_filter),
            asked.principal_filter,
            asked.host_filter,
            Operation(asked.operation),
            PermissionType(asked.permission_type),
        )
    except ValueError as problem:
        raise ProtocolViolation(f"a filter of access rules: {problem}") from None


def _require_known_filter(asked: messages.DescribeAclsRequest | messages.delete_acls_request.DeleteAclsFilter) -> None:
    _require_known([asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type])


def _require_known(parts: Iterable[int]) -> None:
    if _UNKNOWN in parts:
        raise ProtocolViolation("an access rule with an unknown part")


APIS: Final = (
    serve_api(ApiKey.DESCRIBE_ACLS, 0, 3, describe_acls, DESCRIBE_CLUSTER),
    serve_api(ApiKey.CREATE_ACLS, 0, 3, create_acls, ALTER_CLUSTER, failure=FailedItems()),
    serve_api(ApiKey.DELETE_ACLS, 0, 3, delete_acls, ALTER_CLUSTER, failure=FailedItems()),
)
