"""Connections of a client as its options of security say."""

from __future__ import annotations

import asyncio
import ssl

from kafkalite.client.security import SecurityOptions, credentials_of, tls_context_of
from kafkalite.net.connection import Connection


class SecuredConnections:
    """Opens the connections of one client. What is read from files is read once."""

    def __init__(self, options: SecurityOptions) -> None:
        self._options, self._credentials = options, credentials_of(options)
        self._context: ssl.SSLContext | None = None

    @property
    def protocol(self) -> str:
        return self._options.security_protocol

    async def open(
        self, host: str, port: int, client_id: str | None, timeout_s: float, max_response_bytes: int
    ) -> Connection:
        """Open a connection; parameters and errors as `Connection.open`."""
        if self._context is None and self.protocol.endswith("SSL"):
            self._context = await asyncio.get_running_loop().run_in_executor(None, tls_context_of, self._options)
        return await Connection.open(
            host,
            port,
            client_id=client_id,
            timeout_s=timeout_s,
            security_protocol=self.protocol,
            ssl_context=self._context,
            max_response_bytes=max_response_bytes,
            credentials=self._credentials,
        )
