"""The consumer's options, their defaults and what they may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from kafkalite.client.cluster.offset_lookup import EARLIEST, LATEST, IsolationLevel, isolation_number
from kafkalite.client.options import ConnectionOptions
from kafkalite.client.serializers import DeserializerChoice, check_choice

if TYPE_CHECKING:
    from kafkalite.client.group.assignors import Assignor, AssignorName

OffsetReset = Literal["earliest", "latest", "none"]
_RESETS: Final[dict[OffsetReset, int | None]] = {"earliest": EARLIEST, "latest": LATEST, "none": None}


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions(ConnectionOptions):
    """Options of `Consumer` and `SyncConsumer`: those of `ConnectionOptions`, and these. Times are in ms, sizes in bytes; names and
    meanings are Kafka's. What is worth knowing:

    - `auto_offset_reset`: "earliest", "latest" or "none", for partitions without a position or with one out of range.
    - `isolation_level`: "read_uncommitted" or "read_committed".
    - `key_deserializer`, `value_deserializer`: a name of `serializers.FORMATS`, a callable, or a mapping from topic to either.
    - `prefetch_max_bytes` bounds what is fetched ahead of the reader, over all partitions; of each, up to two
      fetches of `max_partition_fetch_bytes`.
    - `max_poll_records` is the default limit of `getmany`.
    - `client_rack`: where the program runs; brokers with `replica.selector.class` have it read from a replica in that rack (KIP-392).
    - `default_api_timeout_ms` bounds calls that have no `timeout` of their own.

    With a `group_id`:

    - `partition_assignment_strategy`: names of `assignors.ASSIGNORS`, or assignors; rebalances are cooperative when all of them are.
    - `enable_auto_commit`: positions are committed every `auto_commit_interval_ms` when records are asked for, before partitions are
      given up, and by `close`. Records that were handed out count as read when the program asks for more.
    - `group_instance_id`: the member's place is kept for `session_timeout_ms` while it is away (static membership, KIP-345).
    - `max_poll_interval_ms`: a program that does not ask for records for so long loses its place in the group. It is also how long
      the others wait for this member when the group rebalances.
    """

    client_id: str | None = "kafkalite-consumer"
    group_id: str | None = None
    group_instance_id: str | None = None
    partition_assignment_strategy: AssignorName | Assignor | Sequence[AssignorName | Assignor] = (
        "range",
        "cooperative-sticky",
    )
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    auto_offset_reset: OffsetReset = "latest"
    isolation_level: IsolationLevel = "read_uncommitted"
    key_deserializer: DeserializerChoice = None
    value_deserializer: DeserializerChoice = None
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 50 * 1024 * 1024
    max_partition_fetch_bytes: int = 1024 * 1024
    prefetch_max_bytes: int = 64 * 1024 * 1024
    max_poll_records: int = 500
    check_crcs: bool = True
    client_rack: str = ""
    default_api_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.auto_offset_reset not in get_args(OffsetReset):
            raise ValueError(f"auto_offset_reset is {self.auto_offset_reset!r}; it may be {', '.join(_RESETS)}")
        isolation_number(self.isolation_level)
        check_choice(self.key_deserializer)
        check_choice(self.value_deserializer)
        if self.group_id is not None:
            self.assignors()

    @property
    def reset_timestamp(self) -> int | None:
        """`auto_offset_reset` as ListOffsets has it: a timestamp, None for no reset."""
        return _RESETS[self.auto_offset_reset]

    @property
    def isolation(self) -> int:
        """`isolation_level` as requests have it: 0 for uncommitted, 1 for committed."""
        return isolation_number(self.isolation_level)

    def assignors(self) -> list[Assignor]:
        """Return the assignors of `partition_assignment_strategy`."""
        from kafkalite.client.group.assignors import assignors_named

        return assignors_named(self.partition_assignment_strategy)
