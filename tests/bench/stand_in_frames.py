"""What stands in for a broker in the control protocol: requests are counted and skipped, and answered as if all of them had succeeded.

Only what a witness gets is decoded, for the partitions that it is told of, and what asks for digests of metadata; of other requests nothing
but the head is looked at, so that stand-ins cost next to nothing beside what they are there to measure. All stand-ins are told the same, so
what the witness was told is the metadata that each of them has digests of. Sans-I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

from kafkalite.broker.handlers.control import read_update
from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.controller.metadata_digests import digest_metadata
from kafkalite.net.frames import read_request_header, response_frame
from kafkalite.portions import in_one_go
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey, request_header_version

_LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">hhi")


class Head(NamedTuple):
    """What every request begins with."""

    api_key: int
    version: int
    correlation_id: int


class Skimmed(NamedTuple):
    """A request of so many bytes, its length included; its frame if it was kept."""

    head: Head
    size_bytes: int
    frame: bytes | None


class Skimmer:
    """Cuts a stream into requests, and keeps their frames only where `keeps`."""

    def __init__(self) -> None:
        self.keeps = False
        """Acts from the next frame on."""
        self._begun = bytearray()
        """The first bytes of a frame, with its length: the head, or all of it."""
        self._wanted = _LENGTH.size + _HEAD.size
        self._left = 0
        """Bytes of the frame that are skipped when they come."""

    def feed(self, data: bytes) -> list[Skimmed]:
        """Return the requests that are complete with these bytes. Raises ValueError for what is no request."""
        found: list[Skimmed] = []
        position = 0
        while position < len(data):
            if self._left:
                skipped = min(self._left, len(data) - position)
                self._left -= skipped
                position += skipped
            else:
                taken = data[position : position + self._wanted - len(self._begun)]
                self._begun += taken
                position += len(taken)
                if len(self._begun) < self._wanted:
                    break
                if not self._has_whole_frame():
                    continue
            if not self._left:
                found.append(self._end())
        return found

    def _has_whole_frame(self) -> bool:
        """With the head there, say what comes of the rest; True if nothing is left to come."""
        size = _LENGTH.unpack_from(self._begun)[0] + _LENGTH.size
        if size < _LENGTH.size + _HEAD.size:
            raise ValueError(f"a request of {size} bytes has no head")
        left = size - len(self._begun)
        asks_digests = _HEAD.unpack_from(self._begun, _LENGTH.size)[0] == ApiKey.METADATA_DIGESTS
        if left and (self.keeps or asks_digests) and self._wanted != size:
            self._wanted = size
            return False
        if left:
            self._left = left
            return False
        return True

    def _end(self) -> Skimmed:
        size = _LENGTH.unpack_from(self._begun)[0] + _LENGTH.size
        frame = bytes(self._begun[_LENGTH.size :]) if len(self._begun) == size else None
        head = Head(*_HEAD.unpack_from(self._begun, _LENGTH.size))
        self._begun.clear()
        self._wanted = _LENGTH.size + _HEAD.size
        return Skimmed(head, size, frame)


def answer_to(head: Head, *, is_ours: bool = False) -> bytes:
    """Return the response to a request: all that was asked for has succeeded. Raises KeyError for an API that is not spoken.

    `is_ours` stand-ins speak what only brokers of ours do.
    """
    return _framed(head, list(_success(ApiKey(head.api_key), head.version, is_ours)))


def _framed(head: Head, body: list[Any]) -> bytes:
    return b"".join(response_frame(APIS[ApiKey(head.api_key)], head.version, head.correlation_id, body))


@cache
def _success(api_key: ApiKey, version: int, is_ours: bool) -> tuple[Any, ...]:
    m = messages
    empty: Mapping[ApiKey, Any] = {
        ApiKey.LEADER_AND_ISR: m.leader_and_isr_response.LeaderAndIsrResponse,
        ApiKey.STOP_REPLICA: m.stop_replica_response.StopReplicaResponse,
        ApiKey.UPDATE_METADATA: m.update_metadata_response.UpdateMetadataResponse,
        ApiKey.API_VERSIONS: m.api_versions_response.ApiVersionsResponse,
    }
    response = empty[api_key]()
    if api_key is ApiKey.API_VERSIONS:
        known = m.api_versions_response.ApiVersion
        spoken = [*empty, ApiKey.METADATA_DIGESTS] if is_ours else empty
        response.api_keys = [known(api_key=key, min_version=0, max_version=APIS[key].max_version) for key in spoken]
    return tuple(codec.encode_response(response, version))


def request_in(skimmed: Skimmed) -> Any:
    """Return the message of a request that was kept, None of another one. Raises ProtocolViolation."""
    if skimmed.frame is None:
        return None
    api_key, version = ApiKey(skimmed.head.api_key), skimmed.head.version
    header = read_request_header(skimmed.frame, request_header_version(APIS[api_key], version))
    return codec.decode_request(api_key, version, skimmed.frame, header.body_position)


def partitions_in(request: Any) -> set[tuple[str, int]]:
    """Return the partitions that an UpdateMetadata or LeaderAndIsr tells of; none for other requests."""
    return {
        (topic.topic_name, each.partition_index)
        for topic in getattr(request, "topic_states", ())
        for each in topic.partition_states
    }


class SharedMetadata:
    """What all stand-ins know, and its digests."""

    def __init__(self) -> None:
        self._cache = MetadataCache()
        self._digests: dict[tuple[int, int], bytes] = {}

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(topic.name, index) for topic in self._cache.topics.values() for index in topic.partitions}

    def apply(self, request: messages.UpdateMetadataRequest) -> None:
        self._cache.apply(in_one_go(read_update(request, self._cache.shared)))

    def answer_digests(self, skimmed: Skimmed) -> bytes:
        """Return the response to a MetadataDigests. Raises ProtocolViolation."""
        buckets = request_in(skimmed).buckets
        known = self._cache.version, buckets
        if known not in self._digests:
            self._digests = {known: in_one_go(digest_metadata(self._cache.topics.values(), buckets))}
        response = messages.MetadataDigestsResponse(digests=self._digests[known])
        return _framed(skimmed.head, list(codec.encode_response(response, skimmed.head.version)))


@dataclass
class Tally:
    """What a stand-in got since it was last set to zero."""

    requests: dict[str, int] = field(default_factory=dict)
    """By API."""

    size_bytes: dict[str, int] = field(default_factory=dict)
    last_ns: int = 0
    """When the latest request was complete, by CLOCK_MONOTONIC."""

    metadata_bytes: list[int] = field(default_factory=list)
    """The size of each UpdateMetadata."""

    partitions: int = 0
    """Of a witness: partitions that it was told of, or has proven to know."""

    roles: int = 0
    """Of a witness: partitions in LeaderAndIsr."""

    since_partitions: int = 0
    """Of a witness: UpdateMetadata since the first one with partitions, that one included."""

    def add(self, skimmed: Skimmed, at_ns: int) -> None:
        name = ApiKey(skimmed.head.api_key).name
        if skimmed.head.api_key == ApiKey.UPDATE_METADATA:
            self.metadata_bytes.append(skimmed.size_bytes)
            self.since_partitions += self.partitions > 0
        self.requests[name] = self.requests.get(name, 0) + 1
        self.size_bytes[name] = self.size_bytes.get(name, 0) + skimmed.size_bytes
        self.last_ns = at_ns

    def latest_metadata(self, count: int) -> list[int]:
        """Return the sizes of the latest UpdateMetadata, so many at most."""
        return self.metadata_bytes[max(len(self.metadata_bytes) - count, 0) :]


def is_published(tallies: Mapping[int, Tally], witness: int, partitions: int, roles: int = 0) -> bool:
    """True if the witness knows so many partitions and was given so many roles, and everybody else had as many LeaderAndIsr, if roles are
    given, and the same UpdateMetadata since the first one with partitions.

    They differ in the receiver's epoch only, so the same ones have the same sizes. What came before may differ: the list of brokers, sent
    when one registers, reaches each at its own time.
    """
    told = tallies[witness]
    if told.partitions < partitions or told.roles < roles:
        return False
    given = told.requests.get(ApiKey.LEADER_AND_ISR.name, 0) if roles else 0
    if any(each.requests.get(ApiKey.LEADER_AND_ISR.name, 0) < given for each in tallies.values()):
        return False
    return all(
        each.latest_metadata(told.since_partitions) == told.latest_metadata(told.since_partitions)
        for each in tallies.values()
    )
