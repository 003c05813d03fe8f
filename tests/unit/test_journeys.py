"""What single records wait for, of stamps that a test makes up."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from tests.bench.journeys import LEGS, Sent, legs_of, read_sent, shares
from tests.bench.paced import save
from tests.bench.stamping_broker import TOPIC, Station, stamping

L, F, C = Station.LEADER, Station.FOLLOWER, Station.COMMITTED


def stamps(*rows: tuple[Station, int, int, float]) -> array[float]:
    return array("d", [number for row in rows for number in row])


def test_a_leg_ends_when_the_next_station_has_the_record() -> None:
    leader = stamps((L, 0, 1, 10.0), (L, 0, 3, 12.0), (C, 0, 1, 14.0), (C, 0, 3, 20.0))
    one = stamps((F, 0, 3, 15.0), (C, 0, 3, 30.0))
    other = stamps((F, 0, 2, 16.0), (F, 0, 3, 18.0), (F, 1, 9, 1.0))
    sent = [Sent(0, 1, 11.0, 11.5, 21.0), Sent(0, 2, 11.0, 11.5, 22.0), Sent(0, 3, 11.0, 11.5, 22.0)]
    # Offset 3 never came.
    assert legs_of(sent, [leader, one, other]) == [(0.5, 0.5, 4.0, 4.0, 1.0), (0.5, 0.5, 6.0, 2.0, 2.0)]
    assert legs_of(sent, [leader, one]) == []


def test_the_slowest_are_told_apart() -> None:
    legs = [(0.001, 0.0, 0.0, 0.0, 0.001 * number) for number in range(1000)]
    assert shares(legs, (0.45, 0.55)) == pytest.approx([1, 0, 0, 0, 499.5])
    assert shares(legs, (0.985, 0.995)) == pytest.approx([1, 0, 0, 0, 989.5])
    assert shares(legs[:1], (0.985, 0.995)) == [1, 0, 0, 0, 0] and len(LEGS) == len(legs[0])


def test_what_the_producer_saves_is_read(tmp_path: Path) -> None:
    save(array("d", [2, 7, 1.0, 1.1, 1.5]), tmp_path / "found.sent")
    assert read_sent(tmp_path / "found.sent") == [Sent(2, 7, 1.0, 1.1, 1.5)]


def test_only_what_passes_in_the_topic_is_noted() -> None:
    class Log:
        def __init__(self, topic: str) -> None:
            self.topic_partition = topic, 5
            self.log_end_offset, self.high_watermark = 0, 3

        def append(self, count: int) -> int:
            self.log_end_offset += count
            return self.log_end_offset

    noted = array("d")
    append, commit = stamping(Log.append, L, noted), stamping(Log.append, C, noted)
    assert append(Log("other"), 4) == 4 and not noted
    assert append(Log(TOPIC), 4) == 4 and list(noted[:3]) == [L, 5, 4]
    commit(Log(TOPIC), 4)
    assert list(noted[4:7]) == [C, 5, 3]
