"""DigestRecords (21000): how many committed records a range of offsets has, of how many bytes, and their fingerprint.

Kafkalite's own (`Api.is_private`): named by ApiVersions to brokers and clients of kafkalite only, and served on every listener.

- Needs READ on the topic; asked of the leader, in the epoch that the client knows if it names one (KIP-320).
- `next_offset` is where the next request goes on, if it is before the end: a request reads some MiB. At the last stable offset it stays
  where it is. Offsets below the log start, or behind the log end, are OFFSET_OUT_OF_RANGE.
- Only records with timestamps from `since_timestamp` to before `until_timestamp` count, whose largest value stands for no bound.
- The digest is that of `protocol/record_batches/record_digest`, and does not depend on how often, or from where to where, is asked: digests
  of ranges that follow each other add up. With `is_fresh` what is kept of segments does not count, and all bytes are read.
- CORRUPT_MESSAGE names the offset of a batch that cannot be right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.identity.authorizer import READ_TOPIC
from kafkalite.broker.parts import HasReplicas
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.record_digest import FINGERPRINT_BYTES, times_of
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.fetch.range_digests import RangeDigests
    from kafkalite.broker.replication.partition import Partition


class Parts(HasReplicas, Protocol):
    """The parts of the broker that this handler uses."""

    @property
    def range_digests(self) -> RangeDigests: ...


async def digest_records(
    parts: Parts, request: messages.DigestRecordsRequest, context: RequestContext
) -> messages.DigestRecordsResponse:
    """Return the digest of a range, or of its beginning. Raises KafkaError."""
    context.require(READ_TOPIC, request.topic)
    place = TopicPartition(request.topic, request.partition_index)

    def find_partition() -> Partition:
        if context.connection.closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "nobody waits for the answer any more")
        partition = parts.replicas.require(place)
        partition.require_leader(request.current_leader_epoch)
        return partition

    find_partition()
    digest, next_offset = await parts.range_digests.digest(
        find_partition,
        request.start_offset,
        request.end_offset,
        context.portions,
        times=times_of(request.since_timestamp, request.until_timestamp),
        fresh=request.is_fresh,
    )
    log = find_partition().log
    return messages.DigestRecordsResponse(
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
        next_offset=next_offset,
        records=digest.records,
        first_offset=digest.first_offset,
        last_offset=digest.last_offset,
        least_timestamp=digest.least_timestamp,
        largest_timestamp=digest.largest_timestamp,
        content_bytes=digest.content_bytes,
        fingerprint=digest.fingerprint.to_bytes(FINGERPRINT_BYTES, "big"),
    )


APIS: Final = (serve_api(ApiKey.DIGEST_RECORDS, 0, 0, digest_records),)
