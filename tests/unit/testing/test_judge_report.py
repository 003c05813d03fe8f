"""A violation is told with the fewest operations, the batches of each replica, and what the state was before."""

from __future__ import annotations

import pytest

from kafkalite.testing.history import report
from kafkalite.testing.history.events import (
    Drained,
    Event,
    ProducerStarted,
    RecordRead,
    ReplicaBatch,
    ReplicaLog,
    SendAcknowledged,
    SendInvoked,
    StateChanged,
)
from kafkalite.testing.history.judge import judge
from kafkalite.testing.history.report import explain, smallest

S = 1_000_000_000


def a_lost_record(count: int = 200, lost: int = 77) -> list[Event]:
    events: list[Event] = [ProducerStarted(5 * S, "p", -1, True, 50)]
    for number in range(count):
        events.append(SendInvoked(5 * S + number, "t", 0, "p", number))
        events.append(SendAcknowledged(6 * S + number, "t", 0, "p", number, number))
    events += [
        StateChanged(5 * S, "zookeeper", "t-0: leader 2, leader epoch 4"),
        StateChanged(5 * S, "zookeeper", "t-01: leader 3, leader epoch 1"),
        StateChanged(60 * S, "zookeeper", "t-0: leader 3, leader epoch 5"),
    ]
    events += [RecordRead(7 * S, "drain", "t", 0, number, "p", number) for number in range(count) if number != lost]
    events.append(Drained(8 * S, "drain", "t", 0, 0, count))
    for broker in (1, 2):
        batches = tuple(
            ReplicaBatch(base, 4, 255, 100, b"") for base in range(0, count, 10) if broker == 1 or base != 70
        )
        events.append(ReplicaLog(9 * S, broker, "t", 0, batches))
    return events


def test_the_fewest_operations_that_show_a_loss() -> None:
    events = a_lost_record()
    (violation,) = [each for each in judge(events).violations if each.rule == "C1"]
    assert smallest(events, violation) == [
        ProducerStarted(5 * S, "p", -1, True, 50),
        SendInvoked(5 * S + 77, "t", 0, "p", 77),
        SendAcknowledged(6 * S + 77, "t", 0, "p", 77, 77),
        Drained(8 * S, "drain", "t", 0, 0, 200),
    ]


def test_the_search_for_the_fewest_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven thousand records that were deleted on purpose were explained for a quarter of an hour."""
    monkeypatch.setattr(report, "_MOST_LOOKED_AT", 2000)
    events = a_lost_record()
    (violation,) = [each for each in judge(events).violations if each.rule == "C1"]
    found = smallest(events, violation)
    assert 4 < len(found) < len(events)
    assert SendInvoked(5 * S + 77, "t", 0, "p", 77) in found


def test_the_report_of_a_loss() -> None:
    events = a_lost_record()
    text = explain(events, judge(events))
    first = text[text.index("C1 t-0", text.index("\n\n")) :].partition("\n\n")[0]
    assert first.splitlines() == [
        "C1 t-0: Value(producer='p', number=77) was acknowledged at 77 and is found at []",
        "  operations:",
        "        0.000000 producer started, producer p, acks -1, idempotent True, retries after ms 50",
        "        0.000000 send invoked, t-0, p:77",
        "        1.000000 send acknowledged, t-0, p:77, offset 77",
        "        3.000000 drained, t-0, reader drain, start offset 0, end offset 200",
        "  batches:",
        "    broker 1: 60 (epoch 4, crc 000000ff), 70 (epoch 4, crc 000000ff), 80 (epoch 4, crc 000000ff); 20 in all",
        "    broker 2: 50 (epoch 4, crc 000000ff), 60 (epoch 4, crc 000000ff), 80 (epoch 4, crc 000000ff); 19 in all",
        "  state changes:",
        "        0.000000 zookeeper t-0: leader 2, leader epoch 4",
    ]
    assert "C8 t-0" in text


def test_a_long_history_is_made_small_quickly() -> None:
    """The number of tries grows with the violation, not with the history."""
    events = a_lost_record(4_000)
    (violation,) = [each for each in judge(events).violations if each.rule == "C1"]
    assert len(smallest(events, violation)) == 4
