"""SaslHandshake (17), SaslAuthenticate (36): advertised on every listener, since old clients guess the age of a broker from them.

On a listener without SASL whoever asks is authenticated already: ILLEGAL_SASL_STATE, as Kafka answers.

- SaslAuthenticate 1 how long the session lasts (KIP-368); 2 flexible.
"""

from __future__ import annotations

from typing import Final

from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

_TOO_LATE: Final = "SaslAuthenticate request received after successful authentication"


def sasl_handshake(
    parts: object, request: messages.SaslHandshakeRequest, context: RequestContext
) -> messages.SaslHandshakeResponse:
    """Refuse, without naming mechanisms."""
    return messages.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def sasl_authenticate(
    parts: object, request: messages.SaslAuthenticateRequest, context: RequestContext
) -> messages.SaslAuthenticateResponse:
    """Refuse."""
    return messages.SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_TOO_LATE)


APIS: Final = (
    serve_api(ApiKey.SASL_HANDSHAKE, 0, 1, sasl_handshake),
    serve_api(ApiKey.SASL_AUTHENTICATE, 0, 2, sasl_authenticate),
)
