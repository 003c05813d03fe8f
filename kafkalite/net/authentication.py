"""SASL from the client's side: SaslHandshake, then a token in each SaslAuthenticate, until the mechanism is done (KIP-152).

`ask` sends one request on the connection that is authenticated, past whatever waits for the end of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafkalite.errors import AuthenticationError, ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.security.sasl_client import SaslCredentials
from kafkalite.security.sasl_exchange import KerberosError, ServerNotProven

Ask = Callable[[Any, int], Awaitable[Any]]


async def authenticate(ask: Ask, version_of: Callable[[int], int], credentials: SaslCredentials, host: str) -> int:
    """Authenticate to `host`, and return for how many ms, 0 for ever. AuthenticationError; OSError and TimeoutError of `ask`."""
    handshake = messages.sasl_handshake_request.SaslHandshakeRequest(mechanism=credentials.mechanism)
    answer = await ask(handshake, 1)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms)
        raise AuthenticationError(f"the broker has no {credentials.mechanism}; it has {offered}")
    if answer.error_code:
        raise AuthenticationError(f"the broker refused to authenticate: {_name(answer.error_code)}")
    loop = asyncio.get_running_loop()
    exchange = credentials.start_exchange(host)
    version = version_of(ApiKey.SASL_AUTHENTICATE)
    lifetime_ms = 0
    try:
        # In a thread, because what SCRAM computes takes milliseconds by design; a callback may also read a file.
        token = await loop.run_in_executor(None, _next, exchange, None)
        while token is not None:
            request = messages.sasl_authenticate_request.SaslAuthenticateRequest(auth_bytes=token)
            answer = await ask(request, version)
            if answer.error_code:
                raise AuthenticationError(answer.error_message or _name(answer.error_code))
            lifetime_ms = answer.session_lifetime_ms
            token = await loop.run_in_executor(None, _next, exchange, bytes(answer.auth_bytes))
    except (ServerNotProven, KerberosError) as problem:
        raise AuthenticationError(str(problem)) from None
    return max(0, lifetime_ms)


def _next(exchange: Any, answer: bytes | None) -> bytes | None:
    """Return the next token; None when the exchange is over. A StopIteration must not leave a thread."""
    try:
        token: bytes = exchange.send(answer)
    except StopIteration:
        return None
    return token


def _name(code: int) -> str:
    known = {int(each): each.name for each in ErrorCode}
    return known.get(code, f"error {code}")
