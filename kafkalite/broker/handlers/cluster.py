"""DescribeCluster (60): brokers, controller and cluster id.

- What may be done to the cluster is told to those who may describe it (KIP-430).
- DescribeCluster 1 endpoint type (KIP-919): brokers (1) have endpoints to show; controllers (2) are asked elsewhere, in KRaft.
"""

from __future__ import annotations

from typing import Final, Protocol

from kafkalite.broker.handlers.metadata import cluster_operations
from kafkalite.broker.identity.authorizer import UNKNOWN_OPERATIONS
from kafkalite.broker.parts import HasClusterId, HasMetadata
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import NO_BROKER

_BROKER_ENDPOINTS, _CONTROLLER_ENDPOINTS = 1, 2


class Parts(HasClusterId, HasMetadata, Protocol):
    """The parts of the broker that these handlers use."""


async def describe_cluster(
    parts: Parts, request: messages.DescribeClusterRequest, context: RequestContext
) -> messages.DescribeClusterResponse:
    """Return the cluster as this broker knows it, with endpoints of the caller's listener."""
    if context.api_version >= 1 and request.endpoint_type != _BROKER_ENDPOINTS:
        is_known = request.endpoint_type == _CONTROLLER_ENDPOINTS
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"endpoint type {request.endpoint_type}; a ZooKeeper-mode broker knows 1",
        )
    await parts.metadata.wait_for_controller()
    m = messages.describe_cluster_response
    cache, listener = parts.metadata, context.listener
    brokers = [
        m.DescribeClusterBroker(broker_id=each.broker_id, host=endpoint.host, port=endpoint.port, rack=each.rack)
        for each in cache.brokers.values()
        if (endpoint := each.endpoints.get(listener)) is not None
    ]
    return m.DescribeClusterResponse(
        cluster_id=parts.cluster_id,
        controller_id=cache.controller_id if cache.endpoint(cache.controller_id, listener) else NO_BROKER,
        brokers=brokers,
        cluster_authorized_operations=cluster_operations(context)
        if request.include_cluster_authorized_operations
        else UNKNOWN_OPERATIONS,
    )


APIS: Final = (serve_api(ApiKey.DESCRIBE_CLUSTER, 0, 1, describe_cluster),)
