"""Which source wins, what DescribeConfigs says, what may be altered."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BROKER_KEYS
from kafkalite.config.dynamic import (
    AlterOperation,
    BrokerSources,
    ConfigEntry,
    Operation,
    apply_operations,
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
    entry = describe_broker(BrokerSources(static={"some.password": "s3cret"}))[-1]
    assert (entry.name, entry.value, entry.sensitive) == ("some.password", None, True)
    assert "s3cret" not in repr(entry)


def test_secrets_are_described_without_their_values() -> None:
    sources = BrokerSources(static={"ssl.keystore.password": "s3cret"})
    entry = one(describe_broker(sources, {"ssl.keystore.password"}))
    assert (entry.value, entry.sensitive, entry.source) == (None, True, ConfigSource.STATIC_BROKER)
    assert "s3cret" not in repr(entry)
    assert one(describe_broker(BrokerSources(), {"ssl.keystore.password"})).synonyms == ()


def test_secrets_are_hidden_in_messages() -> None:
    key = Key("some.password", ConfigType.PASSWORD, None)
    assert key.format_hidden(key.parse("s3cret")) == "[hidden]"
    assert "s3cret" not in str(key.refuse("s3cret", "longer"))


def test_the_cluster_default_lists_only_what_is_set_there() -> None:
    entry = one(describe_cluster_default({"min.insync.replicas": "2"}))
    assert (entry.name, entry.value, entry.source) == ("min.insync.replicas", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_the_largest_double_is_written_as_java_does() -> None:
    entry = one(describe_broker(BrokerSources(), {"log.cleaner.io.max.bytes.per.second"}))
    assert entry.value == "1.7976931348623157E308"


_WRAPPED = (
    "Invalid value org.apache.kafka.common.config.ConfigException: {} for configuration Invalid dynamic configuration"
)


@pytest.mark.parametrize(
    ("overrides", "per_broker", "said"),
    [
        ({"zookeeper.connect": "x"}, True, "Cannot update these configs dynamically: Set(zookeeper.connect)"),
        (
            {"listeners": "PLAINTEXT://:1"},
            False,
            "Cannot update these configs at default cluster level, broker id must be specified: Set(listeners)",
        ),
        (
            {"ssl.key.password": "x"},
            True,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "Set(ssl.key.password)",
        ),
        (
            {"num.io.threads": "0"},
            False,
            "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
        ),
        (
            {"log.segment.bytes": "abc"},
            True,
            "Invalid value abc for configuration log.segment.bytes: Not a number of type INT",
        ),
        (
            {"log.cleaner.threads": "0"},
            True,
            _WRAPPED.format("Log cleaner threads should be at least 1"),
        ),
    ],
)
def test_what_cannot_be_changed_while_running_is_refused(
    overrides: dict[str, str], per_broker: bool, said: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        check_broker_overrides(BrokerSources(), overrides, per_broker=per_broker)
    assert (caught.value.code, str(caught.value)) == (ErrorCode.INVALID_REQUEST, said)


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(KafkaError, match="Invalid dynamic configuration") as caught:
        sources = BrokerSources(static={"log.cleaner.max.compaction.lag.ms": "1"})
        check_broker_overrides(sources, {"log.cleaner.min.compaction.lag.ms": "2"}, per_broker=True)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_pools_grow_and_shrink_by_half_at_most() -> None:
    sources = BrokerSources(static={"num.io.threads": "4"}, per_broker={"log.cleaner.threads": "2"})
    check_broker_overrides(sources, {"num.io.threads": "8", "log.cleaner.threads": "4"}, per_broker=True)
    with pytest.raises(KafkaError, match="should not be greater than double the current value 4"):
        check_broker_overrides(sources, {"num.io.threads": "9"}, per_broker=True)
    with pytest.raises(KafkaError, match="should be at least half the current value 4"):
        check_broker_overrides(sources, {"num.io.threads": "1"}, per_broker=True)


def test_a_default_of_all_brokers_is_not_judged_by_the_overrides_of_the_one_that_was_asked() -> None:
    sources = BrokerSources(per_broker={"log.cleaner.threads": "2"})
    with pytest.raises(KafkaError, match="more than double the current value 1 for"):
        check_broker_overrides(sources, {"log.cleaner.threads": "3"}, per_broker=False)


def test_what_can_be_changed_while_running_is_let_through() -> None:
    check_broker_overrides(BrokerSources(), {"log.retention.ms": "5", "some.plugin.key": "x"}, per_broker=False)
    check_broker_overrides(BrokerSources(), {"listeners": "PLAINTEXT://:1"}, per_broker=True)


def test_incremental_operations() -> None:
    current = {"cleanup.policy": "delete", "retention.ms": "5"}
    operations = [
        Operation("retention.ms", AlterOperation.DELETE),
        Operation("segment.bytes", AlterOperation.SET, "100"),
        Operation("cleanup.policy", AlterOperation.APPEND, "compact,delete"),
    ]
    after = apply_operations(current, operations, TOPIC_KEYS)
    assert after == {"cleanup.policy": "delete,compact", "segment.bytes": "100"}
    assert (
        apply_operations(after, [Operation("cleanup.policy", 3, "delete")], TOPIC_KEYS)["cleanup.policy"] == "compact"
    )
    assert apply_operations({}, [Operation("log.cleanup.policy", 2, "compact")], BROKER_KEYS) == {
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
        apply_operations({}, operations, TOPIC_KEYS)
    assert caught.value.code is code
