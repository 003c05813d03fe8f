"""What consumers of one group tell each other through the coordinator: subscriptions and assignments, versions 0 to 3. Pure.

    subscription: version i16, topics [string], user data bytes?; from 1: owned [topic, [i32]]; from 2: generation i32; from 3: rack string?
    assignment:   version i16, partitions [topic, [i32]], user data bytes?
    sticky data:  previous [topic, [i32]]; from its second version: generation i32 (the user data of the sticky assignor)
    generation:   i32 (the user data of the cooperative sticky assignor)

Strings have a length of i16, bytes and arrays of i32, -1 for null (KIP-429, KIP-792, KIP-881). A reader takes versions that it does not
know as the newest that it knows, since later versions only append.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafkalite.client.group.metadata import NO_GENERATION
from kafkalite.types import TopicPartition, group_by_topic

PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = 3

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member asks for. `generation_id` is that in which it owned `owned_partitions`, -1 when it does not say.

    `group_instance_id` comes beside it, in the JoinGroup answer; assignors sort by it.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one member gets."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def _string(text: str) -> bytes:
    content = text.encode()
    return _I16.pack(len(content)) + content


def _nullable_bytes(content: bytes | None) -> bytes:
    return _I32.pack(-1) if content is None else _I32.pack(len(content)) + content


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic = group_by_topic(partitions)
    parts = [_I32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        parts += [_string(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


class _Reader:
    """Takes fields off the front of some bytes. ValueError at their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._data)

    def _read_bytes(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise ValueError(f"{size} bytes at {self._position} of {len(self._data)}")
        taken, self._position = self._data[self._position : end], end
        return taken

    def i16(self) -> int:
        return int(_I16.unpack(self._read_bytes(2))[0])

    def i32(self) -> int:
        return int(_I32.unpack(self._read_bytes(4))[0])

    def string(self) -> str:
        return self._read_bytes(self.i16()).decode()

    def nullable_string(self) -> str | None:
        size = self.i16()
        return None if size < 0 else self._read_bytes(size).decode()

    def nullable_bytes(self) -> bytes | None:
        size = self.i32()
        return None if size < 0 else self._read_bytes(size)

    def count(self) -> int:
        count = self.i32()
        if count > len(self._data):
            raise ValueError(f"an array of {count} in {len(self._data)} bytes")
        return max(count, 0)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found = []
        for _ in range(self.count()):
            topic = self.string()
            found += [TopicPartition(topic, self.i32()) for _ in range(self.count())]
        return tuple(found)


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """Return the subscription in `version` (0 to 3). ValueError for another."""
    _check_writable(version)
    parts = [_I16.pack(version), _I32.pack(len(subscription.topics)), *map(_string, subscription.topics)]
    parts.append(_nullable_bytes(subscription.user_data))
    if version >= 1:
        parts.append(_partitions(subscription.owned_partitions))
    if version >= 2:
        parts.append(_I32.pack(subscription.generation_id))
    if version >= 3:
        parts.append(_I16.pack(-1) if subscription.rack_id is None else _string(subscription.rack_id))
    return b"".join(parts)


def decode_subscription(data: bytes, group_instance_id: str | None = None) -> Subscription:
    """Return a member's subscription in the version that it names. ValueError for bytes that are none."""
    reader = _Reader(bytes(data))
    version = _read_version(reader)
    topics = tuple(reader.string() for _ in range(reader.count()))
    return Subscription(
        topics,
        reader.nullable_bytes(),
        reader.partitions() if version >= 1 else (),
        reader.i32() if version >= 2 else NO_GENERATION,
        reader.nullable_string() if version >= 3 else None,
        group_instance_id,
    )


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """Return the assignment in `version` (0 to 3, which do not differ). ValueError for another."""
    _check_writable(version)
    return _I16.pack(version) + _partitions(assignment.partitions) + _nullable_bytes(assignment.user_data)


def decode_assignment(data: bytes) -> Assignment:
    """Return an assignment; no bytes at all, as a coordinator answers a member that the leader left out, are an empty one."""
    if not data:
        return Assignment(())
    reader = _Reader(bytes(data))
    _read_version(reader)
    return Assignment(reader.partitions(), reader.nullable_bytes())


def encode_sticky_data(previous: Sequence[TopicPartition], generation: int) -> bytes:
    """Return the sticky assignor's user data: what the member had, and in which generation."""
    return _partitions(previous) + _I32.pack(generation)


def decode_sticky_data(data: bytes) -> tuple[tuple[TopicPartition, ...], int | None]:
    """(previous partitions, generation); the generation is None in data of the first version. ValueError for other bytes."""
    reader = _Reader(bytes(data))
    previous = reader.partitions()
    return previous, None if reader.at_end else reader.i32()


def encode_generation(generation: int) -> bytes:
    """Return the cooperative sticky assignor's user data."""
    return _I32.pack(generation)


def decode_generation(data: bytes) -> int:
    """ValueError for bytes that are no generation."""
    return _Reader(bytes(data)).i32()


def _check_writable(version: int) -> None:
    if not 0 <= version <= NEWEST_VERSION:
        raise ValueError(f"version {version} of the consumer protocol; there are 0 to {NEWEST_VERSION}")


def _read_version(reader: _Reader) -> int:
    version = reader.i16()
    if version < 0:
        raise ValueError(f"version {version} of the consumer protocol")
    return min(version, NEWEST_VERSION)
