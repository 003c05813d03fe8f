"""ApiVersions (18): what this broker speaks, derived from the table of handlers.

- 0 to 2 the same; 3 client name and version, features (KIP-584); 4 the same shape. An unknown version is answered in
  version 0 by dispatch (KIP-511).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol import messages

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext


def api_versions(
    broker: Broker, request: messages.api_versions_request.ApiVersionsRequest, context: RequestContext
) -> messages.api_versions_response.ApiVersionsResponse:
    """Every API that has a handler, with the versions that the codec knows."""
    m = messages.api_versions_response
    routes = broker.dispatcher.routes
    keys = [
        m.ApiVersion(api_key=key, min_version=api.min_version, max_version=api.max_version)
        for key, (api, _, _) in sorted(routes.items())
    ]
    return m.ApiVersionsResponse(api_keys=keys, finalized_features_epoch=broker.features_epoch)
