"""Topic settings: defaults, inheritance, validation."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BROKER_KEYS, topic_defaults_of
from kafkalite.config.topic import LONG_MAX, TOPIC_KEYS, TopicConfig
from kafkalite.errors import ErrorCode, KafkaError

DEFAULTS = TopicConfig()


def refusal(overrides: dict[str, str]) -> str:
    with pytest.raises(KafkaError) as caught:
        TopicConfig.from_overrides(DEFAULTS, overrides)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    return str(caught.value)


def test_the_defaults_are_those_of_the_table_and_obey_their_rules() -> None:
    for key in TOPIC_KEYS.values():
        assert getattr(DEFAULTS, key.attribute) == key.check(key.default), key.name
        assert key.parse(key.format(key.default) or "") == key.default, key.name
        assert key.documentation.endswith((".", "?")), key.name


def test_every_synonym_is_a_broker_setting() -> None:
    for key in TOPIC_KEYS.values():
        for synonym in key.synonyms:
            assert synonym.name in BROKER_KEYS


def test_what_a_topic_does_not_set_it_inherits() -> None:
    broker = TopicConfig.from_overrides(DEFAULTS, {"retention.ms": "5", "segment.bytes": "1000"})
    topic = TopicConfig.from_overrides(broker, {"segment.bytes": " 2000 ", "cleanup.policy": "compact, delete"})
    assert (topic.retention_ms, topic.segment_bytes) == (5, 2000)
    assert topic.compacts and topic.deletes


def test_broker_settings_without_any_value_give_the_defaults() -> None:
    assert topic_defaults_of({}) == DEFAULTS


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"log.retention.ms": "7", "log.retention.minutes": "1", "log.retention.hours": "1"}, 7),
        ({"log.retention.minutes": "2", "log.retention.hours": "1"}, 120_000),
        ({"log.retention.hours": "3"}, 10_800_000),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_that_is_set_wins(texts: dict[str, str], expected: int) -> None:
    assert topic_defaults_of(texts).retention_ms == expected


def test_the_older_key_sets_both_limits_of_timestamps_unless_they_are_set() -> None:
    config = TopicConfig.from_overrides(
        DEFAULTS, {"message.timestamp.difference.max.ms": "9", "message.timestamp.after.max.ms": "3"}
    )
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == (9, 3)
    assert DEFAULTS.message_timestamp_before_max_ms == LONG_MAX


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("segment.bytes", "13", "at least 14"),
        ("segment.bytes", str(2**31), "Not a number of type INT"),
        ("segment.bytes", "1_000", "Not a number of type INT"),
        ("segment.bytes", "", "Not a number of type INT"),
        ("retention.ms", "-2", "at least -1"),
        ("min.cleanable.dirty.ratio", "1.1", "no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number of type DOUBLE"),
        ("cleanup.policy", "discard", "String must be one of: compact, delete"),
        ("compression.type", "brotli", "zstd"),
        ("compression.gzip.level", "0", "between 1 and 9 or equal to -1"),
        ("preallocate", "yes", "true or false"),
        ("message.timestamp.type", "createtime", "CreateTime"),
        ("message.format.version", "latest", "release"),
        ("leader.replication.throttled.replicas", "0:1,2", "[partitionId]:[brokerId]"),
        ("remote.storage.enable", "true", "tiered storage"),
    ],
)
def test_a_refusal_names_key_value_and_remedy(name: str, text: str, remedy: str) -> None:
    message = refusal({name: text})
    assert name in message and text in message and remedy in message


def test_of_a_list_the_item_that_is_not_taken_is_named() -> None:
    said = "Invalid value discard for configuration cleanup.policy: String must be one of: compact, delete"
    assert refusal({"cleanup.policy": "compact,discard"}) == said


def test_an_unknown_key_is_refused_in_kafkas_words() -> None:
    assert refusal({"retention.millis": "1"}) == "Unknown topic config name: retention.millis"


def test_the_shortest_compaction_lag_cannot_exceed_the_longest() -> None:
    assert "min.compaction.lag.ms" in refusal({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})
