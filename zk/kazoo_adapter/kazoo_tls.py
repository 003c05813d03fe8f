"""kazoo's handler with our TLS: kazoo's own would take no certificate from memory, and no PKCS12 or JKS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """`context` makes the TLS context of each connection, see `StoreSecurity`; None for connections in the clear."""

    def __init__(self, context: Callable[[], ssl.SSLContext] | None = None) -> None:
        super().__init__()
        self._context = context
        self.tls_problem = ""
        """Why the latest attempt to encrypt a connection failed; empty when it did not."""

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        if self._context is None:
            return super().create_connection(*args, **kwargs)
        try:
            connection = _connect_tls(self._context(), **kwargs)
        except OSError as problem:
            self.tls_problem = str(problem)
            raise
        self.tls_problem = ""
        return connection

    def select(self, *args: Any, **kwargs: Any) -> Any:
        # What OpenSSL has decrypted already, the kernel does not know of.
        if readable := [each for each in args[0] if isinstance(each, ssl.SSLSocket) and each.pending()]:
            return readable, [], []
        return super().select(*args, **kwargs)


def _connect_tls(context: ssl.SSLContext, address: Any, hostname: str, timeout: float, **_: Any) -> ssl.SSLSocket:
    plain = socket.create_connection(address, timeout)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(plain, server_hostname=hostname)
    except OSError:
        plain.close()
        raise
