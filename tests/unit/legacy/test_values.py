"""Texts and numbers as Java reads and writes them, and the files that the tools read."""

from __future__ import annotations

import pytest

from kafkalite.coordinators.transaction.transaction_record import (
    StoredTransaction,
    TransactionState,
    encode_key,
    encode_value,
)
from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.consumer_groups.resets import duration_ms, read_plan, timestamp_ms
from kafkalite.legacy.delete_records import read_offsets
from kafkalite.legacy.dump_log import record_decoders
from kafkalite.legacy.java.text import double, single
from kafkalite.legacy.perf_test.consumer import format_time
from kafkalite.legacy.reassign_partitions import plans as reassignment_json
from kafkalite.legacy.topics.filter import TopicFilter
from kafkalite.types import TopicPartition


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (5, "5.0"),
        (0.001, "0.001"),
        (0.0005, "5.0E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (-12345678.9, "-1.23456789E7"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_doubles(value: float, text: str) -> None:
    assert double(value) == text


def test_floats_have_the_shortest_digits() -> None:
    assert single(0.10000000149011612) == "0.1"


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1970-01-01T00:00:01.000Z", 1000),
        ("1970-01-01T00:00:01.000", 1000),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-01T00:00:00.000-0130", 5_400_000),
    ],
)
def test_times(text: str, expected_ms: int) -> None:
    assert timestamp_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["2013-06-15", "2013-06-15Tx", "2013-02-30T00:00:00.000Z"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ToolError, match=r"java\.text\.ParseException"):
        timestamp_ms(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("P1D", 86_400_000), ("PT15M", 900_000), ("PT1H0.5S", 3_600_500), ("-PT1S", -1000), ("p1dt2h", 93_600_000)],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "xx"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ToolError):
        duration_ms(text)


def test_plans_of_offsets() -> None:
    assert read_plan("t,0,3\nt,1,7\n", ["g"]) == {"g": {TopicPartition("t", 0): 3, TopicPartition("t", 1): 7}}
    assert read_plan("a,t,0,3\nb,t,1,7\n", ["a", "b"])["b"] == {TopicPartition("t", 1): 7}
    with pytest.raises(ToolError):
        read_plan("t,x,3\n", ["g"])


def test_dates_by_a_pattern_of_java() -> None:
    assert len(format_time(0, "yyyy-MM-dd HH:mm:ss:SSS")) == len("1970-01-01 00:00:00:000")
    assert format_time(1.25, "s'x'SSS''") == "1x250'"


@pytest.mark.parametrize(
    ("expression", "topic", "allowed"), [("a,b", "b", True), ("a.*", "ba", False), (' "a" ', "a", True)]
)
def test_topics_by_expression(expression: str, topic: str, allowed: bool) -> None:
    assert TopicFilter(expression).allows(topic, exclude_internal=False) is allowed


def test_internal_topics_can_be_left_out() -> None:
    assert not TopicFilter(".*").allows("__consumer_offsets", exclude_internal=True)


def test_offsets_of_a_file() -> None:
    found = read_offsets('{"partitions":[{"topic":"t","partition":1,"offset":-1}]}')
    assert found == {TopicPartition("t", 1): -1}


def test_a_plan_prints_as_it_can_be_read() -> None:
    shown = reassignment_json.assignment_json({TopicPartition("t", 0): (1, 2)})
    assert shown == '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    assert reassignment_json.read_plan(shown).targets == {TopicPartition("t", 0): [1, 2]}


def test_records_of_transactions_as_kafkas_decoder_prints_them() -> None:
    stored = StoredTransaction(1, 0, 60_000, TransactionState.ONGOING, {"out": frozenset({1, 0})}, 1795347608661, 7)
    record = {"offset": 1, "key": encode_key("tx"), "value": encode_value(stored)}
    key = "transaction_metadata::transactionalId=tx"
    text = (
        "producerId:1,producerEpoch:0,state=Ongoing,partitions=[out-0,out-1],txnLastUpdateTimestamp=1795347608661,"
        "txnTimeoutMs=60000"
    )
    assert record_decoders.transactions(record) == (key, text)
    assert record_decoders.transactions({**record, "value": None}) == (key, "<DELETE>")
    assert record_decoders.transactions({**record, "key": b"\0\5x"}) == ("unknown::version=5", None)
    for broken in ({**record, "key": None}, {**record, "value": b"\0\0"}):
        with pytest.raises(ToolError):
            record_decoders.transactions(broken)
