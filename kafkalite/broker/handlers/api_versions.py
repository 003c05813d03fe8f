"""ApiVersions (18): what this broker speaks, derived from the records of all APIs.

- 0 to 2 the same; 3 client name and version, features (KIP-584); 4 the same shape. An unknown version is answered in
  version 0 by dispatch (KIP-511).
"""

from __future__ import annotations

from typing import Final, Protocol

from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey


class Parts(Protocol):
    """What this handler uses of the broker."""

    @property
    def spoken(self) -> messages.api_versions_response.ApiVersionsResponse: ...


def api_versions(
    parts: Parts, request: messages.api_versions_request.ApiVersionsRequest, context: RequestContext
) -> messages.api_versions_response.ApiVersionsResponse:
    """What is spoken here."""
    return parts.spoken


APIS: Final = (served(ApiKey.API_VERSIONS, 0, 4, api_versions),)
