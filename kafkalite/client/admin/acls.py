"""Administration of ACLs (KIP-140, KIP-290): described, created and deleted by filters. A part of `Admin`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kafkalite.client.admin.calls import AdminCalls, raise_failures
from kafkalite.client.errors import raise_error
from kafkalite.protocol import messages
from kafkalite.security.acl import (
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)


class AclAdmin(AdminCalls):
    """Describes, creates and deletes ACLs (KIP-140, KIP-290). Every call raises ClientError SECURITY_DISABLED where brokers have
    no authorizer."""

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        """Return the rules that a filter takes, all by default, in order."""
        wanted = wanted or AclFilter()
        request = messages.describe_acls_request.DescribeAclsRequest(**_filter_fields(wanted))
        response = await self._ask(None, request, "describing ACLs")
        raise_error(response, "describing ACLs")
        return sorted(_binding(resource, acl) for resource in response.resources for acl in resource.acls)

    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Add rules; those that are there already stay. AdminError, by the rules' text, for those that failed."""
        wanted = list(bindings)
        request = creation_request(wanted)
        response = await self._retrying(lambda: self._ask_controller(request), "creating ACLs")
        raise_failures("creating", zip(wanted, response.results, strict=True))

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[AclBinding]:
        """Delete what any of the filters takes; the rules that are gone. AdminError for those that are not, and for filters that failed."""
        m = messages.delete_acls_request
        request = m.DeleteAclsRequest(filters=[m.DeleteAclsFilter(**_filter_fields(each)) for each in filters])
        response = await self._retrying(lambda: self._ask_controller(request), "deleting ACLs")
        answers: list[tuple[AclFilter | AclBinding, Any]] = []
        deleted: list[AclBinding] = []
        for wanted, result in zip(filters, response.filter_results, strict=True):
            bindings = [_binding(match, match) for match in result.matching_acls]
            answers += [(wanted, result), *zip(bindings, result.matching_acls, strict=True)]
            deleted += bindings
        raise_failures("deleting", answers)
        return deleted


def creation_request(
    bindings: Iterable[tuple[ResourcePattern, AclEntry]],
) -> messages.create_acls_request.CreateAclsRequest:
    """Return the request that adds these rules."""
    m = messages.create_acls_request
    return m.CreateAclsRequest(
        creations=[
            m.AclCreation(
                resource_type=resource.type,
                resource_name=resource.name,
                resource_pattern_type=resource.pattern,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for resource, entry in bindings
        ]
    )


def _filter_fields(wanted: AclFilter) -> dict[str, Any]:
    """Return the fields of a filter in DescribeAcls and DeleteAcls."""
    return {
        "resource_type_filter": wanted.type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _binding(resource: Any, rule: Any) -> AclBinding:
    """Return the binding of two structures of a response, or of one that is both."""
    return AclBinding(
        ResourcePattern(
            ResourceType(resource.resource_type), resource.resource_name, PatternType(resource.pattern_type)
        ),
        AclEntry(rule.principal, rule.host, Operation(rule.operation), PermissionType(rule.permission_type)),
    )
