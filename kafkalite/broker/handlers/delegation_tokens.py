"""CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken (41), see KIP-48.

A caller that is not authenticated, or is by a token, is refused first: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED; then, without
`delegation.token.secret.key`, every caller: DELEGATION_TOKEN_AUTH_DISABLED. Any broker serves these requests.

- 2 flexible; 3 of creation and description the owner and the requester of a token (KIP-373).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.identity.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.identity.delegation_tokens import belongs_to
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.security.principal import ANONYMOUS, USER, KafkaPrincipal

if TYPE_CHECKING:
    from kafkalite.broker.identity.delegation_tokens import DelegationTokens
    from zk.znodes import DelegationToken

_NO_TIME: Final = -1
_CREATE: Final = Permission(Operation.CREATE_TOKENS, ResourceType.USER)
_DESCRIBE_OF_USER: Final = Permission(Operation.DESCRIBE_TOKENS, ResourceType.USER)
_DESCRIBE: Final = Permission(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN)


class Parts(Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def delegation_tokens(self) -> DelegationTokens: ...


def _check_caller(context: RequestContext) -> None:
    if context.principal == ANONYMOUS or context.principal.by_token:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


async def create_delegation_token(
    parts: Parts, request: messages.CreateDelegationTokenRequest, context: RequestContext
) -> messages.CreateDelegationTokenResponse:
    """Return a new token with its secret, or an error, with the names of its requester and its owner."""
    requester = context.principal
    owner = requester
    if request.owner_principal_name:
        kind = USER if request.owner_principal_type is None else request.owner_principal_type
        owner = KafkaPrincipal(kind, request.owner_principal_name)
    reply = messages.CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=_NO_TIME,
        expiry_timestamp_ms=_NO_TIME,
        max_timestamp_ms=_NO_TIME,
    )
    try:
        _check_caller(context)
        if owner != requester and not _allows(context, _CREATE, str(owner)):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        renewers = [KafkaPrincipal(each.principal_type, each.principal_name) for each in request.renewers]
        if any(each.type != USER for each in renewers):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        token = await parts.delegation_tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except KafkaError as problem:
        reply.error_code = problem.as_outcome().code
        return reply
    reply.issue_timestamp_ms, reply.max_timestamp_ms = token.issued_ms, token.max_ms
    reply.expiry_timestamp_ms, reply.token_id = token.expires_ms, token.token_id
    reply.hmac = parts.delegation_tokens.secret_of(token.token_id)
    return reply


async def renew_delegation_token(
    parts: Parts, request: messages.RenewDelegationTokenRequest, context: RequestContext
) -> messages.RenewDelegationTokenResponse:
    """Return the new expiry of a token in ms since the epoch."""
    response = messages.RenewDelegationTokenResponse()
    await _change_expiry(context, parts.delegation_tokens.renew, request.hmac, request.renew_period_ms, response)
    return response


async def expire_delegation_token(
    parts: Parts, request: messages.ExpireDelegationTokenRequest, context: RequestContext
) -> messages.ExpireDelegationTokenResponse:
    """Return the new expiry of a token in ms since the epoch. A negative period expires the token at once."""
    response = messages.ExpireDelegationTokenResponse()
    await _change_expiry(context, parts.delegation_tokens.expire, request.hmac, request.expiry_time_period_ms, response)
    return response


async def _change_expiry(
    context: RequestContext,
    change: Callable[[KafkaPrincipal, bytes, int], Awaitable[int]],
    secret: bytes,
    period_ms: int,
    response: messages.RenewDelegationTokenResponse | messages.ExpireDelegationTokenResponse,
) -> None:
    """Change the expiry of a token, and set it in the response, or the error and -1."""
    try:
        _check_caller(context)
        response.expiry_timestamp_ms = await change(context.principal, bytes(secret), period_ms)
    except KafkaError as problem:
        response.error_code, response.expiry_timestamp_ms = problem.as_outcome().code, _NO_TIME


def describe_delegation_token(
    parts: Parts, request: messages.DescribeDelegationTokenRequest, context: RequestContext
) -> messages.DescribeDelegationTokenResponse:
    """Return the tokens that belong to the caller or that it may describe, with their secrets; of `owners`, if any are named."""
    m = messages.describe_delegation_token_response
    _check_caller(context)
    if not parts.delegation_tokens.is_enabled:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {KafkaPrincipal(each.principal_type, each.principal_name) for each in request.owners}

    def may_see(token: DelegationToken) -> bool:
        return (owners is None or any(belongs_to(token, each) for each in owners)) and (
            belongs_to(token, context.principal)
            or _allows(context, _DESCRIBE, token.token_id)
            or _allows(context, _DESCRIBE_OF_USER, token.owner)
        )

    return m.DescribeDelegationTokenResponse(
        tokens=[_describe_token(parts, each) for each in parts.delegation_tokens.find_visible(may_see)]
    )


def _describe_token(
    parts: Parts, token: DelegationToken
) -> messages.describe_delegation_token_response.DescribedDelegationToken:
    m = messages.describe_delegation_token_response
    owner, requester = KafkaPrincipal.from_stored(token.owner), KafkaPrincipal.from_stored(token.requester)
    renewers = map(KafkaPrincipal.from_stored, token.renewers)
    return m.DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=parts.delegation_tokens.secret_of(token.token_id),
        renewers=[
            m.DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name) for each in renewers
        ],
    )


def _allows(context: RequestContext, permission: Permission, name: str) -> bool:
    return context.authorizer.allows(context.principal, context.connection.peer_host, permission, name)


APIS: Final = (
    serve_api(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, create_delegation_token),
    serve_api(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, renew_delegation_token),
    serve_api(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, expire_delegation_token),
    serve_api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, describe_delegation_token),
)
