"""A group's membership as a record of `__consumer_offsets`: written when a generation is stable, and when it is empty.

    key    version i16 = 2, group string
    value  version i16, protocol type string, generation i32, protocol string?, leader string?, [2+: state timestamp i64],
           members: member id string, [3+: instance id string?], client id string, client host string, [1+: rebalance timeout i32],
                    session timeout i32, subscription bytes, assignment bytes
           4 is 3 in flexible encoding; no value: the group is deleted

Value version 3 is written, older ones below an inter.broker.protocol.version of 2.3 and 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from kafkalite.coordinators.fields import FieldReader, FieldWriter, decode_name_key, encode_name_key

KEY_VERSION: Final = 2
NO_TIMESTAMP: Final = -1
_FLEXIBLE_VERSION: Final = 4


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member of the stored generation; timeouts in ms."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """The value of a group record; `state_timestamp` in ms since 1970, or NO_TIMESTAMP."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp: int
    members: tuple[StoredMember, ...]


encode_key = partial(encode_name_key, KEY_VERSION)
decode_key = decode_name_key


def encode_value(group: StoredGroup, version: int) -> bytes:
    fields = FieldWriter()
    fields.i16(version)
    fields.string(group.protocol_type)
    fields.i32(group.generation)
    fields.string(group.protocol)
    fields.string(group.leader)
    if version >= 2:
        fields.i64(group.state_timestamp)
    fields.i32(len(group.members))
    for member in group.members:
        fields.string(member.member_id)
        if version >= 3:
            fields.string(member.instance_id)
        fields.string(member.client_id)
        fields.string(member.client_host)
        if version >= 1:
            fields.i32(member.rebalance_timeout_ms)
        fields.i32(member.session_timeout_ms)
        fields.data(member.subscription)
        fields.data(member.assignment)
    return fields.to_bytes()


def decode_value(value: bytes) -> StoredGroup:
    """Decode a value of any version. Raises ValueError."""
    version = int.from_bytes(value[:2], "big")
    if version > _FLEXIBLE_VERSION:
        raise ValueError(f"group value version {version}")
    fields = FieldReader(value, 2, flexible=version == _FLEXIBLE_VERSION)
    protocol_type, generation = fields.string(), fields.i32()
    protocol, leader = fields.nullable_string(), fields.nullable_string()
    state_timestamp = fields.i64() if version >= 2 else NO_TIMESTAMP
    members = tuple(_decode_member(fields, version) for _ in range(fields.count()))
    return StoredGroup(protocol_type, generation, protocol, leader, state_timestamp, members)


def _decode_member(fields: FieldReader, version: int) -> StoredMember:
    member_id = fields.string()
    instance_id = fields.nullable_string() if version >= 3 else None
    client_id, client_host = fields.string(), fields.string()
    rebalance_timeout_ms = fields.i32() if version >= 1 else -1
    session_timeout_ms = fields.i32()
    subscription, assignment = fields.data(), fields.data()
    fields.skip_tags()
    if version < 1:  # there was one timeout for both
        rebalance_timeout_ms = session_timeout_ms
    return StoredMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )
