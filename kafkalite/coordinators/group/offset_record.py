"""A committed offset as a record of `__consumer_offsets`.

    key    version i16 (0, 1), group string, topic string, partition i32
    value  version i16, offset i64, [3+: leader epoch i32], metadata string, commit timestamp i64, [1: expire timestamp i64]
           4 is 3 in flexible encoding; no value: the offset is deleted

Key version 1 and value version 3 are written (2 and 1 below an inter.broker.protocol.version of 2.1), value version 1 for an offset
with its own expiry, which only OffsetCommit 2 to 4 have.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kafkalite.coordinators.fields import FieldReader

KEY_VERSIONS: Final = (0, 1)
NO_LEADER_EPOCH: Final = -1
NO_EXPIRY: Final = -1
WITH_EXPIRY_VERSION: Final = 1

_FLEXIBLE_VERSION: Final = 4
_KEY_HEAD = struct.Struct(">hh")
_LENGTH = struct.Struct(">h")
_NUMBER = struct.Struct(">i")
_V3_HEAD = struct.Struct(">hqih")
_V2_HEAD = struct.Struct(">hqh")
_TIMESTAMP = struct.Struct(">q")


class CommittedOffset(NamedTuple):
    """The committed offset of a group in a partition; timestamps in ms since 1970."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_EXPIRY


def encode_key(group_id: str, topic: str, partition: int) -> bytes:
    group, name = group_id.encode(), topic.encode()
    return b"".join(
        (_KEY_HEAD.pack(1, len(group)), group, _LENGTH.pack(len(name)), name, _NUMBER.pack(partition)),
    )


def decode_key(key: bytes) -> tuple[str, str, int]:
    """Return group, topic and partition. Raises ValueError or struct.error for other keys."""
    group_end = 4 + (key[2] << 8 | key[3])
    topic_start = group_end + 2
    topic_end = topic_start + (key[group_end] << 8 | key[group_end + 1])
    if topic_end + 4 != len(key):
        raise ValueError(f"the offset key has {len(key)} bytes instead of {topic_end + 4}")
    return key[4:group_end].decode(), key[topic_start:topic_end].decode(), _NUMBER.unpack_from(key, topic_end)[0]


def encode_value(committed: CommittedOffset, version: int) -> bytes:
    """Encode a value in `version`, or in version 1 if the offset has its own expiry."""
    metadata = committed.metadata.encode()
    timestamp = _TIMESTAMP.pack(committed.commit_timestamp)
    if committed.expire_timestamp != NO_EXPIRY or version == WITH_EXPIRY_VERSION:
        head = _V2_HEAD.pack(WITH_EXPIRY_VERSION, committed.offset, len(metadata))
        return b"".join((head, metadata, timestamp, _TIMESTAMP.pack(committed.expire_timestamp)))
    if version < 3:
        return b"".join((_V2_HEAD.pack(version, committed.offset, len(metadata)), metadata, timestamp))
    head = _V3_HEAD.pack(version, committed.offset, committed.leader_epoch, len(metadata))
    return b"".join((head, metadata, timestamp))


def decode_value(value: bytes) -> CommittedOffset:
    """Decode a value of any version. Raises ValueError or struct.error."""
    version = value[0] << 8 | value[1]
    if version == 3:
        _, offset, leader_epoch, length = _V3_HEAD.unpack_from(value)
        end = 16 + length
        return CommittedOffset(offset, leader_epoch, value[16:end].decode(), _TIMESTAMP.unpack_from(value, end)[0])
    if version > _FLEXIBLE_VERSION:
        raise ValueError(f"offset value version {version}")
    fields = FieldReader(value, 2, flexible=version == _FLEXIBLE_VERSION)
    offset = fields.i64()
    leader_epoch = fields.i32() if version == _FLEXIBLE_VERSION else NO_LEADER_EPOCH
    metadata = fields.string()
    commit_timestamp = fields.i64()
    expire_timestamp = fields.i64() if version == WITH_EXPIRY_VERSION else NO_EXPIRY
    return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp)
