"""Envelope (58): a request that one broker forwards for a client (KIP-590).

Advertised, as Kafka advertises it, and never sent in a cluster with ZooKeeper, where requests are not forwarded: whoever sends one has
its connection closed, as by Kafka.
"""

from __future__ import annotations

from typing import Final

from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ProtocolViolation
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey


def envelope(parts: object, request: messages.EnvelopeRequest, context: RequestContext) -> messages.EnvelopeResponse:
    """Raise ProtocolViolation, which closes the connection."""
    raise ProtocolViolation("an envelope, and no broker forwards requests to this one")


APIS: Final = (serve_api(ApiKey.ENVELOPE, 0, 0, envelope),)
