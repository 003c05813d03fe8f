"""MetadataDigests (20001): a new controller asks which metadata this broker has, so that it sends what differs only.

Private to kafkalite brokers (`Api.is_private`): served on the inter-broker listener only, and named by ApiVersions to no client.

- Refused from a stale controller and for an earlier incarnation of this broker, as all requests of controllers; the controller epoch is
  adopted. So from the answer on nobody but the controller that asks changes what was told (`Replicas.read_metadata`).
- The digests are computed from the metadata that the broker has at that moment (`controller/metadata_digests`).
- INVALID_REQUEST for no buckets, or more than 4096.
"""

from __future__ import annotations

from typing import Final, Protocol

from kafkalite.broker.identity.authorizer import CLUSTER_ACTION
from kafkalite.broker.parts import HasReplicas
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.controller.control_requests import MetadataDigests
from kafkalite.controller.metadata_digests import BUCKETS_MAX, digest_metadata
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey


class Parts(HasReplicas, Protocol):
    """The parts of the broker that this handler uses."""


async def metadata_digests(
    parts: Parts, request: messages.MetadataDigestsRequest, context: RequestContext
) -> messages.MetadataDigestsResponse:
    """Return the digests of this broker's metadata. Raises KafkaError."""
    if not 1 <= request.buckets <= BUCKETS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{request.buckets} buckets; 1 to {BUCKETS_MAX} are possible")
    wanted = MetadataDigests(request.controller_id, request.controller_epoch, request.broker_epoch, request.buckets)
    topics = await parts.replicas.read_metadata(wanted)
    digests = await context.portions.finish(digest_metadata(topics, wanted.buckets))
    return messages.MetadataDigestsResponse(digests=digests)


APIS: Final = (serve_api(ApiKey.METADATA_DIGESTS, 0, 0, metadata_digests, CLUSTER_ACTION),)
