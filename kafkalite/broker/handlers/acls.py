"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): refused, as Kafka refuses them where no authorizer is configured.

- 1 pattern types (KIP-290); 2 flexible; 3 the resource type of users, for delegation tokens.
- A part that stands for "unknown" closes the connection, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.protocol import messages

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext

_UNKNOWN = 0


def describe_acls(
    broker: Broker, request: messages.describe_acls_request.DescribeAclsRequest, context: RequestContext
) -> messages.describe_acls_response.DescribeAclsResponse:
    """SECURITY_DISABLED."""
    _require_known([request.resource_type_filter, request.pattern_type_filter])
    _require_known([request.operation, request.permission_type])
    m = messages.describe_acls_response
    message = "No Authorizer is configured on the broker"
    return m.DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=message)


def create_acls(
    broker: Broker, request: messages.create_acls_request.CreateAclsRequest, context: RequestContext
) -> messages.create_acls_response.CreateAclsResponse:
    """SECURITY_DISABLED for each."""
    for each in request.creations:
        _require_known([each.resource_type, each.resource_pattern_type, each.operation, each.permission_type])
    m = messages.create_acls_response
    refused = m.AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
    return m.CreateAclsResponse(results=[refused] * len(request.creations))


def delete_acls(
    broker: Broker, request: messages.delete_acls_request.DeleteAclsRequest, context: RequestContext
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
