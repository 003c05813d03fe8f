"""WriteTxnMarkers (27): a transaction's coordinator tells the leaders of partitions how it ended; operators end one that hangs (KIP-664).

- 1 flexible. Answered when the markers are committed, REQUEST_TIMED_OUT after request.timeout.ms. Markers of one producer id share an
  answer, in which a partition's last outcome stands.
- UNKNOWN_TOPIC_OR_PARTITION for partitions without a replica here, UNSUPPORTED_FOR_MESSAGE_FORMAT where older formats are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.coordination.transaction_markers import TransactionMarker
from kafkalite.broker.identity.authorizer import ALTER_CLUSTER, CLUSTER_ACTION
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.guards import AnyOf
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.coordination.transaction_markers import MarkerWriter


class Parts(Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def marker_writer(self) -> MarkerWriter: ...


async def write_txn_markers(
    parts: Parts, request: messages.WriteTxnMarkersRequest, context: RequestContext
) -> messages.WriteTxnMarkersResponse:
    """Write markers, and return the outcome for each partition of each producer id."""
    markers = await context.portions.finish(_read_markers(request))
    outcomes = await parts.marker_writer.write(markers, context.portions)
    return await context.portions.finish(_make_topic_results(markers, outcomes))


def _read_markers(request: messages.WriteTxnMarkersRequest) -> Work[list[TransactionMarker]]:
    markers = []
    for each in request.markers:
        partitions: dict[TopicPartition, None] = {}
        for topic in each.topics:
            for index in topic.partition_indexes:
                yield
                partitions[TopicPartition(topic.name, index)] = None
        markers.append(
            TransactionMarker(
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.transaction_result,
                tuple(partitions),
            )
        )
        yield
    return markers


def _make_topic_results(
    markers: list[TransactionMarker], outcomes: list[dict[TopicPartition, ErrorCode]]
) -> Work[messages.WriteTxnMarkersResponse]:
    m = messages.write_txn_markers_response
    by_producer: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker, codes in zip(markers, outcomes, strict=True):
        yield
        topics = by_producer.setdefault(marker.producer_id, {})
        for (topic, index), code in codes.items():
            yield
            topics.setdefault(topic, {})[index] = code
    results = []
    for producer_id, topics in by_producer.items():
        result = m.WritableTxnMarkerResult(producer_id=producer_id)
        results.append(result)
        for name, partitions in topics.items():
            topic_result = m.WritableTxnMarkerTopicResult(name=name)
            result.topics.append(topic_result)
            for index, code in partitions.items():
                yield
                topic_result.partitions.append(
                    m.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                )
    return m.WriteTxnMarkersResponse(markers=results)


_PERMISSIONS: Final = (
    ALTER_CLUSTER,
    CLUSTER_ACTION,
)
APIS: Final = (
    serve_api(ApiKey.WRITE_TXN_MARKERS, 0, 1, write_txn_markers, failure=FailedItems(), guard=AnyOf(_PERMISSIONS)),
)
