"""Options of source and sink: every form, the defaults, and what is refused."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkalite.client import AdminOptions, ConsumerOptions, ProducerOptions, TopicPartition
from spark_jobs.options import (
    Assign,
    OptionError,
    Subscribe,
    SubscribePattern,
    batch_options,
    client_options,
    include_headers,
    sink_options,
    stream_options,
)
from spark_jobs.ranges import (
    EarliestOffsets,
    GivenOffsets,
    GivenTimestamps,
    LatestOffsets,
    OffsetRange,
    OffsetsError,
    OneTimestamp,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SERVERS = {"kafka.bootstrap.servers": "b:9092"}


def batch(**options: str) -> Any:
    return batch_options({**SERVERS, "subscribe": "t", **options})


def stream(**options: str) -> Any:
    return stream_options({**SERVERS, "subscribe": "t", **options})


def test_defaults() -> None:
    read = batch()
    assert (read.choice, read.start, read.end) == (Subscribe(("t",)), EarliestOffsets(), LatestOffsets())
    assert read.fail_on_data_loss and read.min_partitions is None and read.max_records_per_partition is None
    assert (read.poll_timeout_ms, read.fetch_offset_retries) == (120_000, 3)
    assert read.isolation_level == "read_uncommitted"
    assert stream().start == LatestOffsets() and stream().max_trigger_delay_ms == 900_000


def test_the_case_of_names_does_not_matter() -> None:
    read = batch_options({"KAFKA.Bootstrap.Servers": "b:1", "SUBSCRIBEPATTERN": "a.*", "FailOnDataLoss": "FALSE"})
    assert read.choice == SubscribePattern("a.*") and not read.fail_on_data_loss
    assert read.kafka == {"bootstrap.servers": "b:1"}


def test_tasks() -> None:
    assert (batch().max_bytes_per_partition, batch().tasks) == (None, None)
    assert batch(maxBytesPerPartition="1000").max_bytes_per_partition == 1000
    given = {**SERVERS, "assign": '{"t": [0, 1]}', "tasks": "[[[0, 5, 9], [1, 0, 2]]]"}
    assert batch_options(given).tasks == ((OffsetRange("t", 0, 5, 9), OffsetRange("t", 1, 0, 2)),)
    with pytest.raises(OptionError, match="Option 'tasks' is no list like"):
        batch_options({**given, "tasks": "[[[0, 5]]]"})
    for other in ({"subscribe": "t"}, {"assign": '{"t": [0], "u": [0]}'}):
        with pytest.raises(OptionError, match="needs the option 'assign' with the partitions of one topic"):
            batch_options({**SERVERS, "tasks": given["tasks"], **other})


def test_bytes_of_tasks_are_told_to_have_no_effect_on_streams(caplog: pytest.LogCaptureFixture) -> None:
    stream(maxBytesPerPartition="1000")
    assert "maxBytesPerPartition option ignored in streaming queries" in caplog.text


def test_what_is_read() -> None:
    assert batch(subscribe=" a, b,,a ").choice == Subscribe(("a", "b"))
    given = {**SERVERS, "assign": '{"t": [0, 1]}'}
    assert batch_options(given).choice == Assign(frozenset({T0, T1}))


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "One of the following options must be specified for Kafka source: subscribe, subscribepattern, assign"),
        ({"subscribe": "a", "assign": "{}"}, "Only one of the following options can be specified for Kafka source"),
        ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
        ({"subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({"subscribePattern": "("}, "is no regular expression"),
        ({"assign": "t"}, "No topicpartitions to assign as specified value for option 'assign' is 't'"),
        ({"assign": '{"t": 5}'}, r'Expected e.g. {"topicA":\[0,1\]'),
        ({"assign": '{"t": ["x"]}'}, r'Expected e.g. {"topicA":\[0,1\]'),
        ({"assign": '{"t": [0]'}, r'Expected e.g. {"topicA":\[0,1\]'),
    ],
)
def test_no_choice_of_partitions(options: dict[str, str], message: str) -> None:
    for parse in (batch_options, stream_options):
        with pytest.raises(OptionError, match=message):
            parse({**SERVERS, **options})


def test_bounds() -> None:
    assert batch(startingOffsets="Earliest", endingOffsets=" latest ").start == EarliestOffsets()
    read = batch(startingOffsets='{"t":{"0":23,"1":-2}}', endingOffsets='{"t":{"0":-1,"1":5}}')
    assert (read.start, read.end) == (GivenOffsets({T0: 23, T1: -2}), GivenOffsets({T0: -1, T1: 5}))
    read = batch(startingOffsetsByTimestamp='{"t":{"0":1000}}', startingOffsetsByTimestampStrategy="LATEST")
    assert read.start == GivenTimestamps({T0: 1000}, or_latest=True)
    read = batch(startingTimestamp=" 1000 ", endingTimestamp="2000")
    assert (read.start, read.end) == (OneTimestamp(1000), OneTimestamp(2000))
    assert stream(startingOffsets="latest").start == LatestOffsets()


def test_a_time_for_all_wins_over_times_and_these_over_offsets() -> None:
    options = {"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"t":{"0":6}}', "startingOffsets": "nonsense"}
    assert batch(**options).start == OneTimestamp(5)
    del options["startingTimestamp"]
    assert batch(**options).start == GivenTimestamps({T0: 6})


@pytest.mark.parametrize(
    "options, message",
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest for batch queries on Kafka"),
        (
            {"startingOffsets": "yesterday"},
            r'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got yesterday',
        ),
        ({"startingTimestamp": "noon"}, "Expected a single long value, got noon"),
        ({"startingTimestamp": str(2**63)}, "Expected a single long value, got 9223372036854775808"),
        ({"endingOffsetsByTimestamp": '{"t": {"0": 9223372036854775808}}'}, "Expected e.g. "),
        ({"endingOffsets": '{"t": {"0": 9223372036854775808}}'}, "Expected e.g. "),
        ({"endingOffsetsByTimestamp": "5"}, r'Expected e.g. {"topicA": {"0": 123456789'),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "neither 'error' nor 'latest'"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"minPartitions": "-3"}, "minPartitions must be positive"),
        ({"minPartitions": "many"}, "Option 'minPartitions' is 'many', not an integer"),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be positive"),
        ({"failOnDataLoss": "maybe"}, "Option 'failOnDataLoss' is 'maybe', neither 'true' nor 'false'"),
        ({"kafkaConsumer.pollTimeoutMs": "-1"}, "Option 'kafkaConsumer.pollTimeoutMs' is -1, which is negative"),
    ],
)
def test_batches_that_cannot_be(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        batch(**options)


def test_an_end_before_its_start_is_found_without_a_broker() -> None:
    with pytest.raises(OffsetsError, match="start offset 5 is greater than the end offset 4"):
        batch(startingOffsets='{"t":{"0":5}}', endingOffsets='{"t":{"0":4}}')


@pytest.mark.parametrize(
    "option, message",
    [
        ("endingOffsets", "ending offset not valid in streaming queries"),
        ("endingOffsetsByTimestamp", "ending timestamp not valid in streaming queries"),
        ("endingTimestamp", "ending timestamp not valid in streaming queries"),
    ],
)
def test_streams_have_no_end(option: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        stream(**{option: "latest"})


def test_limits_of_triggers() -> None:
    read = stream(maxOffsetsPerTrigger="10", minOffsetsPerTrigger="5", maxTriggerDelay="30s")
    assert (read.max_offsets_per_trigger, read.min_offsets_per_trigger, read.max_trigger_delay_ms) == (10, 5, 30_000)
    with pytest.raises(OptionError, match=r"minOffsetPerTrigger\(11\) is higher than the maxOffsetsPerTrigger\(10\)"):
        stream(maxOffsetsPerTrigger="10", minOffsetsPerTrigger="11")
    for text, delay_ms in (("1500", 1500), ("1500ms", 1500), ("2 min", 120_000), ("1h", 3_600_000), ("1D", 86_400_000)):
        assert stream(maxTriggerDelay=text).max_trigger_delay_ms == delay_ms
    with pytest.raises(OptionError, match="not a time like"):
        stream(maxTriggerDelay="soon")


def test_limits_of_triggers_are_told_to_have_no_effect_on_batches(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        batch(maxOffsetsPerTrigger="10")
    assert "maxOffsetsPerTrigger option ignored in batch queries" in caplog.text


@pytest.mark.parametrize(
    "name", ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"]
)
def test_settings_that_spark_manages_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"Kafka option '{name}' is not supported"):
        batch(**{f"kafka.{name}": "x"})


def test_servers_are_needed() -> None:
    with pytest.raises(OptionError, match=r"Option 'kafka\.bootstrap\.servers' must be specified"):
        batch_options({"subscribe": "t"})
    with pytest.raises(OptionError, match=r"Option 'kafka\.bootstrap\.servers' must be specified"):
        sink_options({"topic": "t"})


def test_settings_reach_the_client_that_knows_them(caplog: pytest.LogCaptureFixture) -> None:
    settings = batch(**{"kafka.isolation.level": "read_committed", "kafka.max.partition.fetch.bytes": "5"}).kafka
    assert client_options(ConsumerOptions, settings) == {
        "bootstrap_servers": "b:9092",
        "isolation_level": "read_committed",
        "max_partition_fetch_bytes": 5,
    }
    with caplog.at_level(logging.WARNING):
        given = {"bootstrap.servers": "b:1", "reserved.space": "x", "isolation.level": "read_committed"}
        assert client_options(AdminOptions, given) == {"bootstrap_servers": "b:1"}
    assert "Kafka option 'reserved.space' is not known to Admin and has no effect" in caplog.text
    assert "isolation.level" not in caplog.text, "the tasks' consumers know it"


def test_security_is_never_less_than_asked_for() -> None:
    with pytest.raises(OptionError, match=r"Kafka option 'sasl\.unheard\.of' is not supported by this client"):
        client_options(ConsumerOptions, {"sasl.unheard.of": "x"})


def test_values_that_the_client_cannot_take() -> None:
    with pytest.raises(OptionError, match=r"Option kafka\.linger\.ms is 'long', not a number"):
        client_options(ProducerOptions, {"linger.ms": "long"})


def test_sinks() -> None:
    write = sink_options({**SERVERS, "topic": " t ", "kafka.acks": "1"})
    assert (write.topic, dict(write.kafka)) == ("t", {"bootstrap.servers": "b:9092", "acks": "1"})
    assert not write.include_timestamp
    with pytest.raises(OptionError, match=r"Kafka option 'key\.serializer' is not supported"):
        sink_options({**SERVERS, "kafka.key.serializer": "x"})


def test_headers_are_included_on_request() -> None:
    assert include_headers({"INCLUDEHEADERS": "True"}) and not include_headers({})


def test_options_show_no_secret() -> None:
    secret = {**SERVERS, "kafka.sasl.jaas.config": 'x.PlainLoginModule required username="u" password="s3cret";'}
    for made in (batch_options({**secret, "subscribe": "t"}), sink_options({**secret, "topic": "t"})):
        assert made.kafka["sasl.jaas.config"] and "s3cret" not in repr(made)
