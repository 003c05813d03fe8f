"""ApiVersions (18): what this broker speaks, derived from the records of all APIs.

- 0 to 2 the same; 3 client name and version, features (KIP-584); 4 the same shape. An unknown version is answered in
  version 0 by dispatch (KIP-511).
- Private APIs are named only to a client that calls itself a kafkalite broker, on the inter-broker listener; those that clients use also to
  one that calls itself a client of kafkalite.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from kafkalite.broker.parts import HasConfig
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import CLIENT_SOFTWARE_NAME, PEER_SOFTWARE_NAME, ApiKey

_NAMED_FROM: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class Parts(HasConfig, Protocol):
    """The parts of the broker that this handler uses."""

    @property
    def spoken(self) -> messages.ApiVersionsResponse: ...

    @property
    def spoken_to_clients(self) -> messages.ApiVersionsResponse: ...

    @property
    def spoken_to_peers(self) -> messages.ApiVersionsResponse: ...


def api_versions(
    parts: Parts, request: messages.ApiVersionsRequest, context: RequestContext
) -> messages.ApiVersionsResponse:
    """Return the served versions. Raises KafkaError INVALID_REQUEST for a client name or version with characters that KIP-511 forbids."""
    if context.api_version >= _NAMED_FROM and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    name = request.client_software_name
    if name == PEER_SOFTWARE_NAME and context.listener == parts.config.inter_broker_listener_name:
        return parts.spoken_to_peers
    return parts.spoken_to_clients if name == CLIENT_SOFTWARE_NAME else parts.spoken


APIS: Final = (serve_api(ApiKey.API_VERSIONS, 0, 4, api_versions),)
