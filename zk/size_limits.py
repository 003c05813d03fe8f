"""How large requests, znodes and lists of children may become: ZooKeeper's `jute.maxbuffer`, a Java property that acts on both sides. Pure.

A server closes the connection of a client that announces a longer request (`NIOServerCnxn.readLength`), so no znode gets larger.
Responses have no limit at the server, but a client in Java reads none that is longer than its own `jute.maxbuffer`: it fails with
"Packet len … is out of range", connects again and asks again, for ever. An Apache Kafka broker to which that happens keeps its session
and does nothing else. Mostly it is the list of topics. kazoo reads responses of any length.

Sizes are those of packets without the four bytes that hold their length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from zk.store import Create, Operation, Write

SERVER_DEFAULT_BYTES: Final = 0xFFFFF
"""Longest request that a server takes unless it is told otherwise (`BinaryInputArchive.maxBuffer`)."""

JAVA_BROKER_BYTES: Final = 4 * 1024 * 1024
"""Longest response that an Apache Kafka broker reads unless it is told otherwise (`KafkaZkClient`, ZooKeeper's clients before 3.6)."""

ENSEMBLE_BYTES: Final = 4 * 1024 * 1024
"""`jute.maxbuffer` of the servers that this project starts."""

_LIST_BYTES: Final = 20
"""Header of a response, and the number of names."""
_NAME_BYTES: Final = 4
"""Length of a name."""
_OPERATION_BYTES: Final = 128
"""All of an operation besides path and data: its place in a multi, lengths, version or flags, and an ACL of a user or of everybody."""


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Longest request that the servers take, and longest response that every broker of the cluster reads."""

    request_bytes: int = SERVER_DEFAULT_BYTES
    response_bytes: int = JAVA_BROKER_BYTES

    @classmethod
    def of(cls, jute_maxbuffer: int | None) -> SizeLimits:
        """Return the limits of a `jute.maxbuffer` that servers and Java brokers have, None for their defaults."""
        return cls() if jute_maxbuffer is None else cls(jute_maxbuffer, jute_maxbuffer)

    @property
    def znode_bytes(self) -> int:
        """The limit of a znode, which is written by a request and read by a response."""
        return min(self.request_bytes, self.response_bytes)


def list_bytes(names: Iterable[str]) -> int:
    """Return the size of the response that lists these children."""
    return _LIST_BYTES + sum(map(name_bytes, names))


def name_bytes(name: str) -> int:
    """Return the bytes of one name in a list of children."""
    return _NAME_BYTES + (len(name) if name.isascii() else len(name.encode()))


def operation_bytes(operation: Operation) -> int:
    """Return the most that an operation takes in a request, alone or in a multi."""
    path_bytes = len(operation.path) if operation.path.isascii() else len(operation.path.encode())
    return _OPERATION_BYTES + path_bytes + (len(operation.data) if isinstance(operation, Create | Write) else 0)


def split_operations(
    operations: Sequence[Operation], most_together: int, most_bytes: int
) -> Iterator[Sequence[Operation]]:
    """Yield the operations in groups, each for one multi; one that is larger than `most_bytes` is alone."""
    start = size_bytes = 0
    for at, operation in enumerate(operations):
        own_bytes = operation_bytes(operation)
        if at > start and (at - start == most_together or size_bytes + own_bytes > most_bytes):
            yield operations[start:at]
            start, size_bytes = at, 0
        size_bytes += own_bytes
    if operations:
        yield operations[start:]
