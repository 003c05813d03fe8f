"""The producer's options, their defaults and what they may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from kafkalite.client.options import ConnectionOptions
from kafkalite.client.producer.partitioner import Partitioner, PartitionerName, PartitionFunction
from kafkalite.client.serializers import SerializerChoice, check_choice
from kafkalite.clock import Clock
from kafkalite.protocol.record_batches.compression import CODEC_OF_NAME

Acks = Literal["all", "0", "1", "-1", 0, 1, -1]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
_ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
_IN_FLIGHT_WITH_SEQUENCES = 5
"""Brokers remember the last five batches of a producer in each partition (KIP-98)."""


@dataclass(frozen=True, kw_only=True)
class ProducerOptions(ConnectionOptions):
    """Options of `Producer` and `SyncProducer`: those of `ConnectionOptions`, and these. Times are in ms, sizes in bytes; names and
    meanings are Kafka's. What differs or is worth knowing:

    - `acks`: 0, 1 or "all". `enable_idempotence`: no duplicates and no reordering by retries; by default on with acks="all", and off
      otherwise. Asking for it with other acks is a ValueError.
    - `compression_type`: "none", "gzip", "snappy", "lz4" or "zstd".
    - `partitioner`: "murmur2" (keys as Java's default partitioner, null keys round robin), "round_robin" (the same), "sticky" (null
      keys stay on a partition for a batch), "murmur3" (keys by mmh3), or a callable (key, all partitions, available partitions).
    - `key_serializer`, `value_serializer`: a name of `serializers.FORMATS`, a callable, or a mapping from topic to either.
    - `batch_size`: records of a partition travel together up to this size (uncompressed), or until `linger_ms` is over.
    - `buffer_memory`: what may wait for brokers; `send` waits up to `max_block_ms` for room, then raises BufferFullError. It waits as long
      for a topic, or a partition of it, that brokers do not show yet.
    - `request_timeout_ms` bounds one attempt, `delivery_timeout_ms` the whole life of a record, retries included.
    - `max_in_flight_requests_per_connection`: without idempotence one batch of a partition is in flight at a time all the same, so
      that retries keep the order.
    - `transactional_id` makes the producer transactional: each of its records belongs to a transaction. Of the producers with one id, only
      the latest goes on; those before are fenced. It needs idempotence. The coordinator aborts a transaction that takes longer than
      `transaction_timeout_ms`; brokers allow up to `transaction.max.timeout.ms`.
    - `clock` gives the timestamps of records that have none.
    """

    client_id: str | None = "kafkalite-producer"
    acks: Acks = "all"
    enable_idempotence: bool | None = None
    compression_type: CompressionType | None = None
    partitioner: PartitionerName | PartitionFunction = "murmur2"
    key_serializer: SerializerChoice = None
    value_serializer: SerializerChoice = None
    batch_size: int = 128 * 1024
    linger_ms: float = 0
    buffer_memory: int = 32 * 1024 * 1024
    max_block_ms: int = 60_000
    max_request_size: int = 1024 * 1024
    max_in_flight_requests_per_connection: int = 5
    delivery_timeout_ms: int = 120_000
    retries: int = 2**31 - 1
    allow_auto_create_topics: bool = True
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    clock: Clock | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if str(self.acks) not in _ACKS:
            raise ValueError(f"acks is {self.acks!r}; it may be 0, 1 or 'all'")
        if self.idempotent and self.required_acks != -1:
            raise ValueError("enable_idempotence needs acks='all'")
        if self.transactional_id == "":
            raise ValueError("transactional_id is empty")
        if self.transactional_id is not None and not self.idempotent:
            raise ValueError("transactional_id needs enable_idempotence and acks='all'")
        if self.transaction_timeout_ms < 1:
            raise ValueError(f"transaction_timeout_ms is {self.transaction_timeout_ms}; it must be at least 1")
        in_flight = self.max_in_flight_requests_per_connection
        if self.idempotent and not 1 <= in_flight <= _IN_FLIGHT_WITH_SEQUENCES:
            raise ValueError("enable_idempotence needs max_in_flight_requests_per_connection between 1 and 5")
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ValueError("delivery_timeout_ms must be at least linger_ms + request_timeout_ms")
        if (self.compression_type or "none") not in tuple(CODEC_OF_NAME):
            known = ", ".join(get_args(CompressionType))
            raise ValueError(f"compression_type is {self.compression_type!r}; it may be {known}")
        check_choice(self.key_serializer)
        check_choice(self.value_serializer)
        Partitioner(self.partitioner)

    @property
    def required_acks(self) -> int:
        """`acks` as a Produce request has it: -1 for "all"."""
        return _ACKS[str(self.acks)]

    @property
    def idempotent(self) -> bool:
        """True if batches carry sequence numbers (KIP-98)."""
        return self.required_acks == -1 if self.enable_idempotence is None else self.enable_idempotence

    @property
    def codec(self) -> int:
        """Return the number of the compression type in a batch's attributes, 0 for none."""
        return int(CODEC_OF_NAME[self.compression_type or "none"])

    @property
    def max_in_flight_per_partition(self) -> int:
        """Return the number of batches of a partition that may be in flight at once."""
        return self.max_in_flight_requests_per_connection if self.idempotent or self.required_acks == 0 else 1
