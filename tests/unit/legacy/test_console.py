"""Lines into records, and records into lines."""

from __future__ import annotations

import pytest

from kafkalite.client.consumer_record import ConsumerRecord
from kafkalite.coordinators.transaction.transaction_record import (
    StoredTransaction,
    TransactionState,
    encode_key,
    encode_value,
)
from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.console.message_formatters import DEFAULT, formatter_named
from kafkalite.legacy.console.producer import java_lines
from kafkalite.legacy.console.stdin_records import LineReader, LineRecord


def record(
    value: bytes | None = b"v", key: bytes | None = b"k", headers: tuple[tuple[str, bytes | None], ...] = ()
) -> ConsumerRecord:
    return ConsumerRecord("t", 3, 42, 1700000000000, 0, key, value, headers, 0)


def shown(found: ConsumerRecord, **properties: str) -> bytes:
    formatter = formatter_named(DEFAULT, {name.replace("_", "."): value for name, value in properties.items()})
    assert formatter is not None
    return formatter(found)


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({}, b"k\tv", LineRecord(None, b"k\tv", [])),
        ({"parse.key": "true"}, b"k\tv\tw", LineRecord(b"k", b"v\tw", [])),
        ({"parse.key": "TRUE ", "key.separator": ":"}, b"\xff:\xfe", LineRecord(b"\xff", b"\xfe", [])),
        ({"parse.key": "true", "ignore.error": "true"}, b"v", LineRecord(None, b"v", [])),
        ({"parse.key": "true", "null.marker": "-"}, b"-\t-", LineRecord(None, None, [])),
        ({"parse.headers": "true"}, b"a:1,b:\tv", LineRecord(None, b"v", [("a", b"1"), ("b", b"")])),
        ({"parse.headers": "true", "null.marker": "-"}, b"a:-\tv", LineRecord(None, b"v", [("a", None)])),
        ({"parse.headers": "true", "parse.key": "true"}, b"a:1\tk\tv", LineRecord(b"k", b"v", [("a", b"1")])),
    ],
)
def test_a_line_becomes_a_record(properties: dict[str, str], line: bytes, expected: LineRecord) -> None:
    assert LineReader(properties).read(line) == expected


@pytest.mark.parametrize(
    ("properties", "line", "message"),
    [
        ({"parse.key": "true"}, b"v", "No key separator found on line number 1: 'v'"),
        ({"parse.headers": "true"}, b"a\tv", "No header key separator found in pair 'a' on line number 1"),
        (
            {"parse.headers": "true", "null.marker": "-"},
            b"-:1\tv",
            "Header keys should not be equal to the null marker",
        ),
    ],
)
def test_a_line_without_its_separators_is_an_error(properties: dict[str, str], line: bytes, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        LineReader(properties).read(line)


def test_separators_must_differ() -> None:
    with pytest.raises(ToolError, match=r"headers\.delimiter and headers\.separator may not be equal"):
        LineReader({"headers.delimiter": ","})


@pytest.mark.parametrize(("line", "lines"), [(b"a", [b"a"]), (b"a\r", [b"a"]), (b"a\rb\r", [b"a", b"b"]), (b"", [b""])])
def test_a_carriage_return_ends_a_line_as_in_java(line: bytes, lines: list[bytes]) -> None:
    assert java_lines(line) == lines


def test_the_default_formatter_prints_the_value() -> None:
    assert shown(record(b"\xff\x00")) == b"\xff\x00\n"
    assert shown(record(None)) == b"null\n"
    assert shown(record(None), null_literal="NIL") == b"NIL\n"


def test_the_default_formatter_prints_all_that_is_wanted() -> None:
    wanted = dict.fromkeys(("print_timestamp", "print_partition", "print_offset", "print_headers", "print_key"), "true")
    assert shown(record(), **wanted) == b"CreateTime:1700000000000\tPartition:3\tOffset:42\tNO_HEADERS\tk\tv\n"
    headers = record(headers=(("a", b"1"), ("a", None)))
    assert shown(headers, print_headers="true", headers_separator=";", key_separator="|") == b"a:1;a:null|v\n"


def test_nothing_wanted_is_nothing_printed() -> None:
    assert shown(record(), print_value="false") == b""


def test_deserializers() -> None:
    package = "org.apache.kafka.common.serialization."
    assert shown(record(b"\0" * 7 + b"\x05"), value_deserializer=f"{package}LongDeserializer") == b"5\n"
    with pytest.raises(ToolError, match="Size of data received by LongDeserializer is not 8"):
        shown(record(b"x"), value_deserializer=f"{package}LongDeserializer")
    assert shown(record(b"\x41\x20\0\0"), value_deserializer=f"{package}FloatDeserializer") == b"10.0\n"


def test_a_formatter_that_is_not_there() -> None:
    assert formatter_named("foo.Bar", {}) is None


def test_records_of_transactions_are_shown() -> None:
    """As Apache Kafka 3.9.1 prints them, but for the order of partitions."""
    package, scala = "org.apache.kafka.tools.consumer.", "kafka.coordinator.transaction.TransactionLog$"
    as_json = formatter_named(f"{package}TransactionLogMessageFormatter", {})
    as_text = formatter_named(f"{scala}TransactionLogMessageFormatter", {})
    assert as_json is not None and as_text is not None
    key, partitions = encode_key("x"), {"b": frozenset({1, 0}), "a": frozenset({2})}
    ongoing = encode_value(StoredTransaction(7, 3, 60000, TransactionState.ONGOING, partitions, 1000, 900))
    empty = encode_value(StoredTransaction(7, 3, 60000))
    assert as_json(record(ongoing, key)) == (
        b'{"key":{"version":0,"data":{"transactionalId":"x"}},"value":{"version":0,"data":{"producerId":7,"producerEpoch":3,'
        b'"transactionTimeoutMs":60000,"transactionStatus":1,"transactionPartitions":[{"topic":"a","partitionIds":[2]},'
        b'{"topic":"b","partitionIds":[0,1]}],"transactionLastUpdateTimestampMs":1000,"transactionStartTimestampMs":900}}}'
    )
    nothing = b'"transactionStatus":0,"transactionPartitions":null,"transactionLastUpdateTimestampMs":-1'
    assert nothing in as_json(record(empty, key))
    assert as_json(record(None, key)) == b'{"key":{"version":0,"data":{"transactionalId":"x"}},"value":null}'
    assert as_json(record(b"\0\x09", key)).endswith(b'"value":{"version":9,"data":"unknown"}}')
    assert as_json(record(empty, b"\0\1\0\1x")).startswith(b'{"key":{"version":1,"data":"unknown"}')
    assert as_text(record(ongoing, key)) == (
        b"x::TransactionMetadata(transactionalId=x, producerId=7, producerEpoch=3, txnTimeoutMs=60000, state=Ongoing, "
        b"pendingState=None, topicPartitions=HashSet(a-2, b-0, b-1), txnStartTimestamp=900, txnLastUpdateTimestamp=1000)\n"
    )
    assert as_text(record(None, key)) == b"x::NULL\n"
    assert as_text(record(empty, b"\0\1\0\1x")) == b"unknown::version=1\n"
    assert as_text(record(empty, None)) == b""
