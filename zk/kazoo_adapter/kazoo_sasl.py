"""kazoo's connection with our DIGEST-MD5: kazoo itself asks for the library pure-sasl, which nobody maintains."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, AuthFailedError, SessionClosedRequireSaslError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL

from zk.security.digest_md5 import DigestCredentials, ServerNotProven


class DigestConnection(ConnectionHandler):  # type: ignore[misc]
    """Authenticates each connection before any request is sent on it, and calls `authenticated`: kazoo calls itself connected before."""

    def __init__(
        self,
        client: KazooClient,
        retry_sleeper: Any,
        logger: Any,
        credentials: DigestCredentials,
        authenticated: Callable[[], object],
    ) -> None:
        super().__init__(client, retry_sleeper, logger=logger, sasl_options={})
        self._credentials, self._authenticated = credentials, authenticated

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        """Authenticate, in kazoo's thread. It gives up after AuthFailedError, and tries again after ConnectionDropped."""
        exchange = self._credentials.start_exchange(secrets.token_urlsafe(24))
        xid, token = 1, next(exchange)
        while True:
            self._submit(SASL(token), timeout, xid)
            try:
                token = exchange.send(self._sasl_answer(timeout))
            except StopIteration:
                self._authenticated()
                return
            except ServerNotProven as problem:
                raise AuthFailedError(str(problem)) from None
            xid += 1

    def _sasl_answer(self, timeout: float) -> bytes:
        header, buffer, offset = self._read_header(timeout)
        if header.zxid > 0:
            self.client.last_zxid = header.zxid
        if (
            header.err == SessionClosedRequireSaslError.code
        ):  # instead of AuthFailedError, where servers require authentication
            raise AuthFailedError("the server refused user name or password")
        if header.err:
            raise EXCEPTIONS[header.err]("the server refused user name or password")
        return SASL.deserialize(buffer, offset)[0] or b""
