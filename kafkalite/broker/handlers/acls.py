"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): refused, as Kafka refuses them where no authorizer is configured.

- 1 pattern types (KIP-290); 2 flexible; 3 the resource type of users, for delegation tokens.
- A part that stands for "unknown" closes the connection, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkalite.broker.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

_UNKNOWN = 0


def describe_acls(
    parts: object, request: messages.describe_acls_request.DescribeAclsRequest, context: RequestContext
) -> messages.describe_acls_response.DescribeAclsResponse:
    """SECURITY_DISABLED."""
    _require_known([request.resource_type_filter, request.pattern_type_filter])
    _require_known([request.operation, request.permission_type])
    m = messages.describe_acls_response
    message = "No Authorizer is configured on the broker"
    return m.DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=message)


def create_acls(
    parts: object, request: messages.create_acls_request.CreateAclsRequest, context: RequestContext
) -> messages.create_acls_response.CreateAclsResponse:
    """SECURITY_DISABLED for each."""
    for each in request.creations:
        _require_known([each.resource_type, each.resource_pattern_type, each.operation, each.permission_type])
    m = messages.create_acls_response
    refused = m.AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
    return m.CreateAclsResponse(results=[refused] * len(request.creations))


def delete_acls(
    parts: object, request: messages.delete_acls_request.DeleteAclsRequest, context: RequestContext
) -> messages.delete_acls_response.DeleteAclsResponse:
    """SECURITY_DISABLED for each."""
    for each in request.filters:
        _require_known([each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type])
    m = messages.delete_acls_response
    message = "No Authorizer is configured."
    refused = m.DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=message)
    return m.DeleteAclsResponse(filter_results=[refused] * len(request.filters))


def _require_known(parts: Iterable[int]) -> None:
    if _UNKNOWN in parts:
        raise ProtocolViolation("an access rule with an unknown part")


def _creation_failed(
    request: messages.create_acls_request.CreateAclsRequest, code: ErrorCode, message: str | None
) -> messages.create_acls_response.CreateAclsResponse:
    m = messages.create_acls_response
    result = m.AclCreationResult(error_code=code, error_message=message)
    return m.CreateAclsResponse(results=[result] * len(request.creations))


def _deletion_failed(
    request: messages.delete_acls_request.DeleteAclsRequest, code: ErrorCode, message: str | None
) -> messages.delete_acls_response.DeleteAclsResponse:
    m = messages.delete_acls_response
    result = m.DeleteAclsFilterResult(error_code=code, error_message=message)
    return m.DeleteAclsResponse(filter_results=[result] * len(request.filters))


APIS: Final = (
    served(ApiKey.DESCRIBE_ACLS, 0, 3, describe_acls, Permission(Operation.DESCRIBE, ResourceType.CLUSTER)),
    served(
        ApiKey.CREATE_ACLS,
        0,
        3,
        create_acls,
        Permission(Operation.ALTER, ResourceType.CLUSTER),
        failure=_creation_failed,
    ),
    served(
        ApiKey.DELETE_ACLS,
        0,
        3,
        delete_acls,
        Permission(Operation.ALTER, ResourceType.CLUSTER),
        failure=_deletion_failed,
    ),
)
