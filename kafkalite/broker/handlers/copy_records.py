"""CopyRecords (20002): `kafkalite mirror back` appends batches of another cluster to a partition that has the same records before them.

Private to kafkalite (`Api.is_private`): served on the inter-broker listener only, and named by ApiVersions to no client.

- Batches keep their offsets, gaps, timestamps, producers and markers, and get the leader epoch of this leader. Of what a producer's
  batch is checked for only the CRC is.
- OFFSET_OUT_OF_RANGE, with the log end, when the log does not end where the sender says, or the first batch begins before that:
  somebody else has written. Batches whose response was lost are refused so, too.
- Answered as acks=all; a batch that is cut at the end is left out. UNSUPPORTED_FOR_MESSAGE_FORMAT for formats before 2.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from kafkalite.broker.identity.authorizer import CLUSTER_ACTION
from kafkalite.broker.parts import HasClock, HasReplicas
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.storage.log.append_checks import adopt_copy
from kafkalite.types import INTERNAL_TOPICS, TopicPartition


class Parts(HasClock, HasReplicas, Protocol):
    """The parts of the broker that this handler uses."""


async def copy_records(
    parts: Parts, request: messages.CopyRecordsRequest, context: RequestContext
) -> messages.CopyRecordsResponse:
    """Append batches, and return where the log ends when they are committed."""
    if request.topic in INTERNAL_TOPICS:
        return messages.CopyRecordsResponse(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = None
    try:
        partition = parts.replicas.require(TopicPartition(request.topic, request.partition_index))
        partition.require_leader()
        end = _append(parts, partition, request)
    except KafkaError as problem:
        end = -1 if partition is None or not partition.is_leader else partition.log.log_end_offset
        return messages.CopyRecordsResponse(
            error_code=problem.code, error_message=str(problem) or None, log_end_offset=end
        )
    committed: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def complete(code: ErrorCode) -> None:
        if not committed.done():
            committed.set_result(code)

    wait = partition.when_committed(end, complete)
    try:
        async with asyncio.timeout(request.timeout_ms / 1000):
            code = await committed
    except TimeoutError:
        if wait is not None:
            partition.forget_wait(wait)
        code = ErrorCode.REQUEST_TIMED_OUT
    return messages.CopyRecordsResponse(error_code=code, log_end_offset=end)


def _append(parts: Parts, partition: Partition, request: messages.CopyRecordsRequest) -> int:
    """Append batches and return the new log end. Raises KafkaError."""
    if partition.is_under_min_isr:
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(partition.isr)} replicas are in sync")
    records, log = bytearray(request.records or b""), partition.log
    adopt_copy(records, log.log_end_offset, request.log_end_offset, partition.leader_epoch)
    log.append_as_follower(records, now_ms=parts.clock.now_ms())
    partition.after_append(request.log_end_offset, parts.clock.monotonic_ms())
    return log.log_end_offset


APIS: Final = (serve_api(ApiKey.COPY_RECORDS, 0, 0, copy_records, CLUSTER_ACTION),)
