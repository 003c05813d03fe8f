"""Which source wins, what DescribeConfigs says, what may be altered."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BROKER_KEYS
from kafkalite.config.dynamic import (
    AlterOperation,
    BrokerSources,
    ConfigEntry,
    Operation,
    altered,
    check_broker_overrides,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from kafkalite.config.keys import ConfigSource, ConfigType, Key
from kafkalite.config.topic import TOPIC_KEYS
from kafkalite.errors import ErrorCode, KafkaError


def one(entries: list[ConfigEntry]) -> ConfigEntry:
    (entry,) = entries
    return entry


def sources(entry: ConfigEntry) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source.value) for each in entry.synonyms]


def test_the_nearest_source_of_a_broker_setting_wins() -> None:
    everything = BrokerSources(
        static={"log.segment.bytes": "100"},
        cluster_default={"log.segment.bytes": "200"},
        per_broker={"log.segment.bytes": "300"},
    )
    entry = one(describe_broker(everything, {"log.segment.bytes"}))
    assert (entry.value, entry.source, entry.read_only) == ("300", ConfigSource.DYNAMIC_BROKER, False)
    assert sources(entry) == [
        ("log.segment.bytes", "300", 2),
        ("log.segment.bytes", "200", 3),
        ("log.segment.bytes", "100", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert everything.topic_defaults().segment_bytes == 300


def test_a_topic_setting_shows_its_own_value_then_the_brokers() -> None:
    broker = BrokerSources(static={"log.retention.hours": "2"})
    inherited = one(describe_topic(broker, {}, {"retention.ms"}))
    assert (inherited.value, inherited.source, inherited.synonyms) == ("7200000", ConfigSource.DEFAULT, ())
    own = one(describe_topic(broker, {"retention.ms": "5"}, {"retention.ms"}))
    assert (own.value, own.source) == ("5", ConfigSource.TOPIC)
    assert sources(own) == [("retention.ms", "5", 1)]
    broker = BrokerSources(static={"log.retention.hours": "2"}, per_broker={"log.retention.ms": "7"})
    nearer = one(describe_topic(broker, {}, {"retention.ms"}))
    assert (nearer.value, nearer.source) == ("7", ConfigSource.DYNAMIC_BROKER)


def test_every_topic_setting_is_described_with_its_default() -> None:
    entries = describe_topic(BrokerSources(), {})
    assert [entry.name for entry in entries] == list(TOPIC_KEYS)
    for entry in entries:
        key = TOPIC_KEYS[entry.name]
        assert entry.value == key.format(key.default), entry.name
        assert entry.source is ConfigSource.DEFAULT
        assert not entry.read_only


def test_what_needs_a_restart_is_read_only() -> None:
    entry = one(describe_broker(BrokerSources(), {"zookeeper.connect"}))
    assert (entry.value, entry.read_only, entry.synonyms) == (None, True, ())


def test_unknown_settings_are_listed_without_their_values() -> None:
    entry = describe_broker(BrokerSources(static={"ssl.keystore.password": "s3cret"}))[-1]
    assert (entry.name, entry.value, entry.sensitive) == ("ssl.keystore.password", None, True)
    assert "s3cret" not in repr(entry)


def test_secrets_are_hidden_in_messages() -> None:
    key = Key("some.password", ConfigType.PASSWORD, None)
    assert key.shown(key.parse("s3cret")) == "[hidden]"
    assert "s3cret" not in str(key.refuse("s3cret", "longer"))


def test_the_cluster_default_lists_only_what_is_set_there() -> None:
    entry = one(describe_cluster_default({"min.insync.replicas": "2"}))
    assert (entry.name, entry.value, entry.source) == ("min.insync.replicas", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_the_largest_double_is_written_as_java_does() -> None:
    entry = one(describe_broker(BrokerSources(), {"log.cleaner.io.max.bytes.per.second"}))
    assert entry.value == "1.7976931348623157E308"


@pytest.mark.parametrize(
    ("overrides", "per_broker", "code"),
    [
        ({"zookeeper.connect": "x"}, True, ErrorCode.INVALID_REQUEST),
        ({"listeners": "PLAINTEXT://:1"}, False, ErrorCode.INVALID_REQUEST),
        ({"num.io.threads": "0"}, False, ErrorCode.INVALID_CONFIG),
        (
            {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
            True,
            ErrorCode.INVALID_CONFIG,
        ),
    ],
)
def test_what_cannot_be_changed_while_running_is_refused(
    overrides: dict[str, str], per_broker: bool, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        check_broker_overrides(overrides, per_broker=per_broker)
    assert caught.value.code is code


def test_what_can_be_changed_while_running_is_let_through() -> None:
    check_broker_overrides({"log.retention.ms": "5", "some.plugin.key": "x"}, per_broker=False)
    check_broker_overrides({"listeners": "PLAINTEXT://:1"}, per_broker=True)


def test_incremental_operations() -> None:
    current = {"cleanup.policy": "delete", "retention.ms": "5"}
    operations = [
        Operation("retention.ms", AlterOperation.DELETE),
        Operation("segment.bytes", AlterOperation.SET, "100"),
        Operation("cleanup.policy", AlterOperation.APPEND, "compact,delete"),
    ]
    after = altered(current, operations, TOPIC_KEYS)
    assert after == {"cleanup.policy": "delete,compact", "segment.bytes": "100"}
    assert altered(after, [Operation("cleanup.policy", 3, "delete")], TOPIC_KEYS)["cleanup.policy"] == "compact"
    assert altered({}, [Operation("log.cleanup.policy", 2, "compact")], BROKER_KEYS) == {
        "log.cleanup.policy": "delete,compact"
    }
    assert current == {"cleanup.policy": "delete", "retention.ms": "5"}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([Operation("retention.ms", 0, "1"), Operation("retention.ms", 1)], ErrorCode.INVALID_REQUEST),
        ([Operation("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([Operation("retention.ms", 0, None)], ErrorCode.INVALID_REQUEST),
        ([Operation("retention.ms", 2, "1")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_operations_that_make_no_sense_are_refused(operations: list[Operation], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        altered({}, operations, TOPIC_KEYS)
    assert caught.value.code is code
