"""The trace of state changes: every partition is named, in few lines when many change together."""

from __future__ import annotations

import logging

import pytest

from kafkalite.broker.log_output import CHARACTERS_MAX
from kafkalite.broker.replication.state_change_trace import ONE_BY_ONE, StateChangeTrace
from kafkalite.types import TopicPartition

LOGGER = "kafkalite.state_change"


def lines_of(caplog: pytest.LogCaptureFixture, changes: int, topic: str = "t") -> list[str]:
    """Return what is written when every third of so many partitions follows, and the others lead."""
    caplog.clear()
    with caplog.at_level(logging.INFO, LOGGER), StateChangeTrace(1, "role=%s isr=%s", changes) as trace:
        for index in range(changes):
            trace.note(TopicPartition(topic, index), "leader" if index % 3 else "follower", (1, 2))
    return [record.getMessage() for record in caplog.records]


def named_in(line: str) -> list[str]:
    return line.split()[1].partition("=")[2].split(",")


def test_few_changes_have_a_line_each(caplog: pytest.LogCaptureFixture) -> None:
    lines = lines_of(caplog, ONE_BY_ONE)
    assert lines[:2] == ["broker=1 partition=t-0 role=follower isr=1,2", "broker=1 partition=t-1 role=leader isr=1,2"]
    assert len(lines) == ONE_BY_ONE


@pytest.mark.parametrize("topic", ["t", "t" * 249], ids=["short", "longest"])
def test_of_many_changes_those_to_the_same_state_share_lines(topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """A line for each partition took half of the time in which a broker took up what a dead one had left."""
    changes = 3001
    lines = lines_of(caplog, changes, topic)
    assert sorted(name for line in lines for name in named_in(line)) == sorted(f"{topic}-{i}" for i in range(changes))
    assert max(map(len, lines)) < CHARACTERS_MAX, "nothing is cut off"
    assert len(lines) < changes / 10
    assert {line.split(maxsplit=2)[2] for line in lines} == {"role=leader isr=1,2", "role=follower isr=1,2"}


def test_a_single_partition_among_many_is_named_as_among_few(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER), StateChangeTrace(1, "leader=%d", ONE_BY_ONE + 1) as trace:
        trace.note(TopicPartition("t", 7), 3)
    assert caplog.messages == ["broker=1 partition=t-7 leader=3"]


def test_what_changed_before_a_request_failed_is_written(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, LOGGER),
        pytest.raises(ZeroDivisionError),
        StateChangeTrace(1, "leader=%d", ONE_BY_ONE + 1) as trace,
    ):
        trace.note(TopicPartition("t", 7), 3)
        raise ZeroDivisionError
    assert caplog.messages == ["broker=1 partition=t-7 leader=3"]
