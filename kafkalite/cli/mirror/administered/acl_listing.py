"""Lists the ACLs of a cluster, also those that have a meaning in Kafka 4 alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.cli.mirror.administered.state import read_binding
from kafkalite.client.errors import error_of
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.security.acl import AclBinding, AclFilter

if TYPE_CHECKING:
    from kafkalite.client.cluster.client import ClusterClient


async def read_acls(cluster: ClusterClient) -> tuple[frozenset[AclBinding] | None, list[str]]:
    """Return the ACLs of a cluster, None without an authorizer, and descriptions of those that have a meaning in Kafka 4 alone, such as
    TWO_PHASE_COMMIT (KIP-939). Raises ClientError, OSError.
    """
    wanted = AclFilter()
    request = messages.DescribeAclsRequest(
        resource_type_filter=wanted.type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    response = await cluster.request_any(request)
    if response.error_code == ErrorCode.SECURITY_DISABLED:
        return None, []
    if response.error_code:
        raise error_of(response.error_code, "describing ACLs", response.error_message)
    known: set[AclBinding] = set()
    unknown = []
    for resource in response.resources:
        for each in resource.acls:
            try:
                known.add(_read_binding(resource, each))
            except ValueError:
                unknown.append(_describe_unknown(resource, each))
    return frozenset(known), sorted(unknown)


def _read_binding(resource: Any, each: Any) -> AclBinding:
    return read_binding(
        resource.resource_type,
        resource.resource_name,
        resource.pattern_type,
        each.principal,
        each.host,
        each.operation,
        each.permission_type,
    )


def _describe_unknown(resource: Any, each: Any) -> str:
    what = f"operation {each.operation} on {resource.resource_name} (resource type {resource.resource_type})"
    return f"of {each.principal} for {what}"
