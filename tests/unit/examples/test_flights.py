"""The demo's rows as records, and the judge of what is read back."""

from __future__ import annotations

import msgpack  # type: ignore[import-untyped]
import pytest

from deploy.examples.flights.check import SEQUENCE, SEQUENCE_HEADER, OrderJudge
from kafkalite.client.consumer_record import ConsumerRecord

pandas = pytest.importorskip("pandas", reason="the demo's extra is not installed")


def test_rows_become_records() -> None:
    from deploy.examples.flights.records import flight_records

    table = pandas.DataFrame(
        {
            "tailnum": pandas.Series(["N1", None], dtype="str"),
            "dep_delay": [-2.0, float("nan")],
            "air_time": [1.5, float("nan")],
            "minute": [15, 30],
            "time_hour": ["2013-01-01T10:00:00Z", "2013-01-01T11:00:00Z"],
        }
    )
    first, second = list(flight_records(table))
    assert first[0] == b"N1" and second[0] is None
    assert msgpack.unpackb(first[1])["dep_delay"] == -2 and msgpack.unpackb(first[1])["air_time"] == 1.5
    assert msgpack.unpackb(second[1]) == {
        "tailnum": None,
        "dep_delay": None,
        "air_time": None,
        "minute": 30,
        "time_hour": "2013-01-01T11:00:00Z",
    }
    assert first[2] == 1357035180000, "10:15 UTC less two minutes"
    assert second[2] == 1357039800000, "the schedule of a flight that never left"


def record(key: bytes | None, number: int, partition: int = 0) -> ConsumerRecord:
    return ConsumerRecord("f", partition, 0, 0, 0, key, b"v", [(SEQUENCE_HEADER, SEQUENCE.pack(number))], 0)


def judged(*records: ConsumerRecord) -> list[str]:
    judge = OrderJudge()
    for each in records:
        judge.check_record(each)
    return judge.finish().problems


def test_the_judge_accepts_what_is_in_order() -> None:
    assert judged(record(b"a", 0), record(None, 1), record(b"b", 0), record(b"a", 1), record(None, 0)) == []


def test_the_judge_sees_gaps_swaps_doubles_and_strays() -> None:
    assert "number 2 where 1 was due" in judged(record(b"a", 0), record(b"a", 2))[0]
    assert "number 0 where 1 was due" in judged(record(b"a", 0), record(b"a", 0))[0]
    assert "came twice" in judged(record(None, 0), record(None, 0))[0]
    assert "missing" in judged(record(None, 1))[0]
    assert "partitions 0 and 1" in judged(record(b"a", 0), record(b"a", 1, partition=1))[0]


@pytest.mark.parametrize(
    ("there", "suffix"),
    [
        ((), ""),
        (("orders", "flights-2"), ""),
        (("flights", "Topic-A", "Topic-B"), "-2"),
        (("Topic-B",), "-2"),
        (("flights", "flights-2", "Topic-A-3"), "-4"),
    ],
)
def test_a_demo_on_a_cluster_with_data_has_topics_of_its_own(there: tuple[str, ...], suffix: str) -> None:
    from deploy.examples.flights.__main__ import choose_suffix

    assert choose_suffix(there) == suffix
