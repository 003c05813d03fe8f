"""CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken (41): refused.

As Kafka refuses them on a connection that is not authenticated: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, before it looks whether tokens
are in use (KIP-48).

- 2 flexible; 3 of creation and description the owner and the requester of a token (KIP-373).
"""

from __future__ import annotations

from typing import Final

from kafkalite.broker.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

_USER: Final = "User"
_NO_TIME: Final = -1


def create_delegation_token(
    parts: object,
    request: messages.create_delegation_token_request.CreateDelegationTokenRequest,
    context: RequestContext,
) -> messages.create_delegation_token_response.CreateDelegationTokenResponse:
    """Refused, with the names of who asks and for whom."""
    owned = bool(request.owner_principal_name)
    return messages.create_delegation_token_response.CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=request.owner_principal_type or _USER if owned else _USER,
        principal_name=request.owner_principal_name or context.user,
        token_requester_principal_type=_USER,
        token_requester_principal_name=context.user,
        issue_timestamp_ms=_NO_TIME,
        expiry_timestamp_ms=_NO_TIME,
        max_timestamp_ms=_NO_TIME,
    )


def renew_delegation_token(
    parts: object,
    request: messages.renew_delegation_token_request.RenewDelegationTokenRequest,
    context: RequestContext,
) -> messages.renew_delegation_token_response.RenewDelegationTokenResponse:
    """Refused."""
    return messages.renew_delegation_token_response.RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NO_TIME
    )


def expire_delegation_token(
    parts: object,
    request: messages.expire_delegation_token_request.ExpireDelegationTokenRequest,
    context: RequestContext,
) -> messages.expire_delegation_token_response.ExpireDelegationTokenResponse:
    """Refused."""
    return messages.expire_delegation_token_response.ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NO_TIME
    )


def describe_delegation_token(
    parts: object,
    request: messages.describe_delegation_token_request.DescribeDelegationTokenRequest,
    context: RequestContext,
) -> messages.describe_delegation_token_response.DescribeDelegationTokenResponse:
    """Refused."""
    return messages.describe_delegation_token_response.DescribeDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    )


APIS: Final = (
    served(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, create_delegation_token),
    served(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, renew_delegation_token),
    served(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, expire_delegation_token),
    served(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        0,
        3,
        describe_delegation_token,
        Permission(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN),
    ),
)
