"""The state of a transactional id as a record of `__transaction_state`, written at each step of a transaction.

    key    version i16 = 0, transactional id string
    value  version i16, producer id i64, producer epoch i16, timeout i32, state i8,
           topics? (null in state Empty): topic string, partitions i32[], last update i64, start i64
           1 is 0 in flexible encoding; no value: the id has expired

Value version 0 is written, as by Apache Kafka without the feature transaction.version. It lacks the producer id and epoch before a bump,
so a client that repeats its InitProducerId at another coordinator is fenced, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from kafkalite.coordinators.fields import FieldReader, FieldWriter, decode_name_key, encode_name_key

KEY_VERSION: Final = 0
NO_TIMESTAMP: Final = -1
_VALUE_VERSION: Final = 0
_FLEXIBLE_VERSION: Final = 1

Partitions: TypeAlias = Mapping[str, frozenset[int]]
"""By topic; never changed, only replaced."""
NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class TransactionState(IntEnum):
    """The states by their numbers in the record. The last two exist in memory only."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Return the name in ListTransactions and DescribeTransactions, such as PrepareCommit."""
        return self.name.title().replace("_", "")


BY_LABEL: Final = {state.label: state for state in TransactionState}
_WRITTEN: Final = frozenset(TransactionState) - {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}


@dataclass(frozen=True, slots=True)
class StoredTransaction:
    """The value of a record; timestamps in ms since 1970. `start_ms` is the time of the first added partition, or NO_TIMESTAMP."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    last_update_ms: int = NO_TIMESTAMP
    start_ms: int = NO_TIMESTAMP


encode_key = partial(encode_name_key, KEY_VERSION)
decode_key = decode_name_key


def encode_value(stored: StoredTransaction) -> bytes:
    fields = FieldWriter()
    fields.i16(_VALUE_VERSION)
    fields.i64(stored.producer_id)
    fields.i16(stored.producer_epoch)
    fields.i32(stored.timeout_ms)
    fields.i8(stored.state)
    if stored.state is TransactionState.EMPTY:
        fields.i32(-1)
    else:
        fields.i32(len(stored.partitions))
        for topic, partitions in stored.partitions.items():
            fields.string(topic)
            fields.i32s(tuple(partitions))
    fields.i64(stored.last_update_ms)
    fields.i64(stored.start_ms)
    return fields.to_bytes()


def decode_value(value: bytes) -> StoredTransaction:
    """Decode a value of any version. Raises ValueError."""
    version = int.from_bytes(value[:2], "big")
    if version > _FLEXIBLE_VERSION:
        raise ValueError(f"transaction value version {version}")
    fields = FieldReader(value, 2, flexible=version == _FLEXIBLE_VERSION)
    producer_id, producer_epoch, timeout_ms = fields.i64(), fields.i16(), fields.i32()
    state = TransactionState(fields.i8())
    if state not in _WRITTEN:
        raise ValueError(f"a transaction in state {state.label}")
    partitions: dict[str, frozenset[int]] = {}
    for _ in range(fields.count()):
        topic = fields.string()
        partitions[topic] = frozenset(fields.i32s())
        fields.skip_tags()
    last_update_ms, start_ms = fields.i64(), fields.i64()
    fields.skip_tags()
    return StoredTransaction(producer_id, producer_epoch, timeout_ms, state, partitions, last_update_ms, start_ms)
