"""Digests of metadata, by which a broker proves to a new controller which metadata it has (`known_metadata`).

Topics are divided among buckets by their names, so that an answer has the same length in a cluster of a hundred thousand topics. The digest
of a bucket covers all that an UpdateMetadata says of its topics and partitions: names, ids, and every field of `PartitionMetadata`. It is
BLAKE2b, because clients choose the names of topics. A broker computes it from the metadata that it has at that moment; nothing is kept.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final, Protocol
from zlib import crc32

from kafkalite.controller.control_requests import PartitionMetadata
from kafkalite.portions import Work

DIGEST_BYTES: Final = 16
BUCKETS_MAX: Final = 4096
"""Buckets that a controller may ask for, whose digests take 64 KiB."""
TOGETHER: Final = 16
"""Partitions that are one unit of work: each takes about a microsecond, and elections wait for the answer of a busy broker."""
_TOPIC: Final = struct.Struct(">H16sI")
"""Length of the name, topic id, number of partitions."""
_INDEX: Final = struct.Struct(">i")


class KnownTopic(Protocol):
    """A topic as a broker knows it from its controller."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Mapping[int, PartitionMetadata]: ...


def bucket_of(topic: str, buckets: int) -> int:
    """Return the bucket of a topic, the same on every broker."""
    return crc32(topic.encode()) % buckets


def digest_metadata(topics: Iterable[KnownTopic], buckets: int) -> Work[bytes]:
    """Return the digests of all buckets, `DIGEST_BYTES` each. The topics must not change meanwhile."""
    by_bucket: defaultdict[int, list[KnownTopic]] = defaultdict(list)
    for done, topic in enumerate(topics, 1):
        if done % TOGETHER == 0:
            yield
        by_bucket[bucket_of(topic.name, buckets)].append(topic)
    digests, done = [], 0
    packed: dict[int, tuple[PartitionMetadata, bytes]] = {}
    """Bytes by the id of a state, which many partitions share; the state is kept so that its id is of no other."""
    for bucket in range(buckets):
        digest = blake2b(digest_size=DIGEST_BYTES)
        for topic in sorted(by_bucket.get(bucket, ()), key=lambda each: each.name):
            name = topic.name.encode()
            digest.update(_TOPIC.pack(len(name), topic.topic_id, len(topic.partitions)) + name)
            for index in sorted(topic.partitions):
                done += 1
                if done % TOGETHER == 0:
                    yield
                state = topic.partitions[index]
                known = packed.get(id(state))
                if known is None:
                    known = packed[id(state)] = state, _state_bytes(state)
                digest.update(_INDEX.pack(index) + known[1])
        done += 1
        if done % TOGETHER == 0:
            yield
        digests.append(digest.digest())
    return b"".join(digests)


def _state_bytes(state: PartitionMetadata) -> bytes:
    """Return all fields of a partition's metadata, each list behind its length, so that no two states have the same bytes."""
    isr, replicas, offline = state.isr, state.replicas, state.offline_replicas
    numbers = (
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        state.controller_epoch,
        len(isr),
        *isr,
        len(replicas),
        *replicas,
        len(offline),
        *offline,
    )
    return struct.pack(f">{len(numbers)}i", *numbers)
