"""Small value types that every package shares; nothing here does I/O.

Topic ids are 16 raw bytes everywhere in memory (`NO_TOPIC_ID` when unknown) and URL-safe base64 of 22 characters in
znodes and `partition.metadata`, as Kafka writes them (KIP-516).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias, TypeVar

Value = TypeVar("Value")
BrokerId: TypeAlias = int
Buffer: TypeAlias = bytes | bytearray | memoryview


class FrameMemory(bytearray):
    """Memory that holds one frame from its first byte on, unlike the memory that frames of many connections pass through."""


NO_BROKER = -1
"""Stands for "no leader" and "no controller"."""

NO_TOPIC_ID = bytes(16)

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
"""Topics that brokers write for themselves; clients may read them."""


class TopicPartition(NamedTuple):
    """One partition of a topic; its text form `topic-partition` is also the name of its log directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def group_by_topic(pairs: Iterable[tuple[str, Value]]) -> dict[str, list[Value]]:
    """Return the second parts of pairs under their topics, in order: of `TopicPartition`s the numbers."""
    grouped: dict[str, list[Value]] = {}
    for topic, value in pairs:
        grouped.setdefault(topic, []).append(value)
    return grouped


class Endpoint(NamedTuple):
    """The address of a broker's listener, as it is advertised to clients and peers.

    `security_protocol` is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.
    """

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


def topic_id_to_text(topic_id: bytes) -> str:
    """Return a topic id as the 22 characters of znodes and files (URL-safe base64 without padding)."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def topic_id_from_text(text: str) -> bytes:
    """Return the 16 bytes of a topic id written by `topic_id_to_text`.

    Raises ValueError when `text` is not 22 characters of URL-safe base64.
    """
    try:
        topic_id = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as problem:
        raise ValueError(f"topic id {text!r} is not URL-safe base64: {problem}") from problem
    if len(topic_id) != 16:
        raise ValueError(f"topic id {text!r} has {len(topic_id)} bytes instead of 16")
    return topic_id
