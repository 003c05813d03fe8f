"""The settings of a topic: one table from which defaults, validation, inheritance and DescribeConfigs are derived.

A topic's setting comes from its own overrides, else from the broker setting named as its synonym, else from Kafka's
default. Durations are milliseconds, sizes are bytes; -1 stands for "without limit" where the rule admits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from kafkalite.config.keys import (
    INT_MAX,
    LONG_MAX,
    ConfigType,
    Effect,
    InvalidValue,
    Key,
    Rule,
    Synonym,
    at_least,
    between,
    declare,
    keys_of,
    list_of,
    matching,
    one_of,
    rule,
)
from kafkalite.errors import ErrorCode, KafkaError

__all__ = ["INT_MAX", "LONG_MAX", "TOPIC_KEYS", "TopicConfig"]

MS_PER_MINUTE: Final = 60_000
MS_PER_HOUR: Final = 3_600_000

_boolean = partial(declare, ConfigType.BOOLEAN, dynamic=True)
_double = partial(declare, ConfigType.DOUBLE, dynamic=True)
_int = partial(declare, ConfigType.INT, dynamic=True)
_list = partial(declare, ConfigType.LIST, dynamic=True)
_long = partial(declare, ConfigType.LONG, dynamic=True)
_text = partial(declare, ConfigType.STRING, dynamic=True)
"""A topic's setting may be altered at any time."""

_VERSION_NAME = matching(
    r"(0\.([89]|1[01])(\.[0-9]+)*|[1-9]\.[0-9]+)(-IV[0-9]+)?", "Must be a release such as 3.0 or 2.8-IV1"
)
_GZIP_LEVEL = rule("Value must be between 1 and 9 or equal to -1", lambda level: level == -1 or 1 <= level <= 9)


def _is_throttle_list(entries: tuple[str, ...]) -> bool:
    if entries == ("*",):
        return True
    return all(all(number.isdigit() for number in entry.split(":")) and entry.count(":") == 1 for entry in entries)


def _replica_list_rule(key: str) -> Rule:
    return rule(
        f"{key} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        _is_throttle_list,
    )


def _from(*names: str | Synonym) -> tuple[Synonym, ...]:
    return tuple(name if isinstance(name, Synonym) else Synonym(name) for name in names)


_NO_TIERED_STORAGE: Final = "this broker has no tiered storage"


class UnknownTopicConfig(KafkaError):
    """INVALID_CONFIG for a key that is no topic setting."""

    def __init__(self, name: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Every setting of one topic, typed; made by `from_overrides`."""

    cleanup_policy: tuple[str, ...] = _list(
        ("delete",),
        "What happens to old segments: delete them by age and size, compact them by key, or both.",
        list_of("compact", "delete"),
        synonyms=_from("log.cleanup.policy"),
    )
    compression_gzip_level: int = _int(
        -1, "Level when the broker compresses with gzip.", _GZIP_LEVEL, synonyms=_from("compression.gzip.level")
    )
    compression_lz4_level: int = _int(
        9, "Level when the broker compresses with lz4.", between(1, 17), synonyms=_from("compression.lz4.level")
    )
    compression_type: str = _text(
        "producer",
        "Codec of stored batches; 'producer' keeps the codec that the producer chose.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonyms=_from("compression.type"),
    )
    compression_zstd_level: int = _int(
        3, "Level when the broker compresses with zstd.", between(-131072, 22), synonyms=_from("compression.zstd.level")
    )
    delete_retention_ms: int = _long(
        86_400_000,
        "How long a compacted topic keeps tombstones and transaction markers.",
        at_least(0),
        synonyms=_from("log.cleaner.delete.retention.ms"),
    )
    file_delete_delay_ms: int = _long(
        60_000,
        "Wait between giving up a segment and removing its files.",
        at_least(0),
        synonyms=_from("log.segment.delete.delay.ms"),
    )
    flush_messages: int = _long(
        LONG_MAX,
        "Records after which the log is forced to disk.",
        at_least(1),
        synonyms=_from("log.flush.interval.messages"),
    )
    flush_ms: int = _long(
        LONG_MAX,
        "Time after which the log is forced to disk.",
        at_least(0),
        synonyms=_from("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = _list(
        (),
        "Replicas whose fetching is throttled on the follower's side.",
        _replica_list_rule("follower.replication.throttled.replicas"),
    )
    index_interval_bytes: int = _int(
        4096,
        "Bytes of log between two entries of the offset index.",
        at_least(0),
        synonyms=_from("log.index.interval.bytes"),
    )
    leader_replication_throttled_replicas: tuple[str, ...] = _list(
        (),
        "Replicas whose fetching is throttled on the leader's side.",
        _replica_list_rule("leader.replication.throttled.replicas"),
    )
    local_retention_bytes: int = _long(
        -2,
        "Bytes kept locally with tiered storage; -2 means retention.bytes.",
        at_least(-2),
        synonyms=_from("log.local.retention.bytes"),
        reason=_NO_TIERED_STORAGE,
    )
    local_retention_ms: int = _long(
        -2,
        "Time kept locally with tiered storage; -2 means retention.ms.",
        at_least(-2),
        synonyms=_from("log.local.retention.ms"),
        reason=_NO_TIERED_STORAGE,
    )
    max_compaction_lag_ms: int = _long(
        LONG_MAX,
        "Longest time that a record of a compacted topic stays uncompacted.",
        at_least(1),
        synonyms=_from("log.cleaner.max.compaction.lag.ms"),
    )
    max_message_bytes: int = _int(
        1_048_588,
        "Largest record batch, as stored, that the topic takes.",
        at_least(0),
        synonyms=_from("message.max.bytes"),
    )
    message_downconversion_enable: bool = _boolean(
        True,
        "May records be rewritten in an older format for old consumers?",
        synonyms=_from("log.message.downconversion.enable"),
    )
    message_format_version: str = _text(
        "3.0-IV1",
        "Format of stored records, by the release that brought it. It acts below an inter.broker.protocol.version of 3.0.",
        _VERSION_NAME,
        synonyms=_from("log.message.format.version"),
    )
    message_timestamp_after_max_ms: int = _long(
        LONG_MAX,
        "How far ahead of the broker's clock a record's timestamp may be.",
        at_least(0),
        synonyms=_from("log.message.timestamp.after.max.ms"),
    )
    message_timestamp_before_max_ms: int = _long(
        LONG_MAX,
        "How far behind the broker's clock a record's timestamp may be.",
        at_least(0),
        synonyms=_from("log.message.timestamp.before.max.ms"),
    )
    message_timestamp_difference_max_ms: int = _long(
        LONG_MAX,
        "Older key for both message.timestamp.before.max.ms and message.timestamp.after.max.ms.",
        at_least(0),
        synonyms=_from("log.message.timestamp.difference.max.ms"),
    )
    message_timestamp_type: str = _text(
        "CreateTime",
        "Whose clock stamps records: the producer's or the broker's.",
        one_of("CreateTime", "LogAppendTime"),
        synonyms=_from("log.message.timestamp.type"),
    )
    min_cleanable_dirty_ratio: float = _double(
        0.5,
        "Share of uncompacted bytes from which a log is compacted.",
        between(0, 1),
        synonyms=_from("log.cleaner.min.cleanable.ratio"),
    )
    min_compaction_lag_ms: int = _long(
        0,
        "Shortest time that a record stays uncompacted.",
        at_least(0),
        synonyms=_from("log.cleaner.min.compaction.lag.ms"),
    )
    min_insync_replicas: int = _int(
        1,
        "In-sync replicas without which a write with acks=all is refused.",
        at_least(1),
        synonyms=_from("min.insync.replicas"),
    )
    preallocate: bool = _boolean(
        False,
        "Reserve the disk space of a segment when it is created?",
        synonyms=_from("log.preallocate"),
        reason="segments grow as they are written",
    )
    remote_log_copy_disable: bool = _boolean(
        False, "With tiered storage: stop copying segments to the remote tier?", reason=_NO_TIERED_STORAGE
    )
    remote_log_delete_on_disable: bool = _boolean(
        False, "With tiered storage: delete remote segments when it is disabled?", reason=_NO_TIERED_STORAGE
    )
    remote_storage_enable: bool = _boolean(
        False,
        "Tiered storage.",
        rule("This broker has no tiered storage", lambda enabled: not enabled),
        effect=Effect.REFUSED,
        reason=_NO_TIERED_STORAGE,
    )
    retention_bytes: int = _long(
        -1, "Bytes that a partition keeps; -1 keeps everything.", synonyms=_from("log.retention.bytes")
    )
    retention_ms: int = _long(
        604_800_000,
        "How long records are kept; -1 keeps them for ever.",
        at_least(-1),
        synonyms=_from(
            "log.retention.ms",
            Synonym("log.retention.minutes", MS_PER_MINUTE),
            Synonym("log.retention.hours", MS_PER_HOUR),
        ),
    )
    segment_bytes: int = _int(
        1_073_741_824, "Largest size of one segment file.", at_least(14), synonyms=_from("log.segment.bytes")
    )
    segment_index_bytes: int = _int(
        10_485_760,
        "Largest size of a segment's offset index and time index.",
        at_least(4),
        synonyms=_from("log.index.size.max.bytes"),
    )
    segment_jitter_ms: int = _long(
        0,
        "Largest random part taken off segment.ms, so that not all segments roll at once.",
        at_least(0),
        synonyms=_from("log.roll.jitter.ms", Synonym("log.roll.jitter.hours", MS_PER_HOUR)),
    )
    segment_ms: int = _long(
        604_800_000,
        "Age after which a segment that is not full is closed too.",
        at_least(1),
        synonyms=_from("log.roll.ms", Synonym("log.roll.hours", MS_PER_HOUR)),
    )
    unclean_leader_election_enable: bool = _boolean(
        False,
        "May a replica outside the ISR become leader, at the price of acknowledged records?",
        synonyms=_from("unclean.leader.election.enable"),
    )

    may_store_zstd: bool = True
    """No setting: are records compressed with zstd stored? From an inter.broker.protocol.version of 2.1 on (KIP-110)."""

    message_format_acts: bool = False
    """No setting: may message.format.version choose an older format? Below an inter.broker.protocol.version of 3.0 (KIP-724)."""

    @classmethod
    def from_overrides(cls, defaults_from_broker: TopicConfig, overrides: Mapping[str, str]) -> TopicConfig:
        """Return the settings of a topic whose own ones are `overrides`, the rest being the broker's.

        Raises KafkaError INVALID_CONFIG, naming key, value and remedy, for a value that its key does not take or values
        that contradict each other; UnknownTopicConfig for an unknown key.
        """
        values: dict[str, Any] = {}
        for name, text in overrides.items():
            key = TOPIC_KEYS.get(name)
            if key is None:
                raise UnknownTopicConfig(name)
            if text is None:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic config: {name}")
            try:
                values[key.attribute] = key.parse(text)
            except InvalidValue as problem:
                raise KafkaError(ErrorCode.INVALID_CONFIG, str(problem)) from problem
        values = _with_timestamp_limits(values)
        config = replace(defaults_from_broker, **values) if values else defaults_from_broker
        config.check_consistency()
        return config

    def check_consistency(self) -> None:
        """Raise KafkaError INVALID_CONFIG when two settings contradict each other."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid value {self.max_compaction_lag_ms} for configuration max.compaction.lag.ms: it must be at "
                f"least min.compaction.lag.ms, which is {self.min_compaction_lag_ms}",
            )

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy


TOPIC_KEYS: Final[Mapping[str, Key]] = keys_of(TopicConfig)
"""Every topic setting by its Kafka name."""


def _with_timestamp_limits(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with the older key for both limits in place of those of the two newer keys that are not given (KIP-937)."""
    both = values.get("message_timestamp_difference_max_ms")
    if both is None:
        return values
    return {"message_timestamp_before_max_ms": both, "message_timestamp_after_max_ms": both} | values
