"""Tells followers from clients, and asks a broker of the target whether it lets a connection follow. Pure."""

from __future__ import annotations

from typing import Any, Final

from kafkalite.net.frames import LENGTH, request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey

_FETCH: Final = APIS[ApiKey.FETCH]
_VERSION: Final = 17
_CORRELATION_ID: Final = 1
_SOME_FOLLOWER: Final = 0


def is_of_follower(request: Any) -> bool:
    """True if a Fetch, ListOffsets or OffsetForLeaderEpoch comes from a broker."""
    if isinstance(request, messages.FetchRequest):
        return request.replica_state is not None and request.replica_state.replica_id >= 0
    return bool(request.replica_id >= 0)


def make_question(topic_id: bytes) -> bytes:
    """Return a follower's Fetch of a topic that does not exist, without the length of the frame."""
    m = messages.fetch_request
    partition = m.FetchPartition(partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1)
    request = m.FetchRequest(
        replica_state=m.ReplicaState(replica_id=_SOME_FOLLOWER, replica_epoch=-1),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        session_epoch=-1,
        topics=[m.FetchTopic(topic_id=topic_id, partitions=[partition])],
    )
    body = codec.encode_request(request, _VERSION)
    whole = b"".join(bytes(each) for each in request_frame(_FETCH, _VERSION, _CORRELATION_ID, "kafkalite-mirror", body))
    return whole[LENGTH.size :]


def read_verdict(frame: bytes) -> int:
    """Return the error code of the answer for that topic, 0 where it has none. ProtocolViolation for other bytes."""
    response = codec.decode_response(ApiKey.FETCH, _VERSION, frame, response_body_position(_FETCH, _VERSION, frame))
    codes = [int(each.error_code) for topic in response.responses for each in topic.partitions]
    return int(response.error_code) or (codes[0] if codes else 0)
