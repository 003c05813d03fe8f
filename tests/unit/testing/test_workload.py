"""The bookkeeping of workloads: gaps between acknowledgements, and which bursts are due."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest

from kafkalite.testing.history.events import Event, SendAcknowledged, SendInvoked
from kafkalite.testing.history.recorder import Recorder
from kafkalite.testing.workloads import workload
from kafkalite.testing.workloads.clients import Writer, WriterOptions
from kafkalite.testing.workloads.workload import longest_gap
from kafkalite.types import TopicPartition

S = 1_000_000_000


def acknowledged(at_s: float, partition: int, producer: str = "p") -> Event:
    return SendAcknowledged(int(at_s * S), "t", partition, producer, int(at_s), int(at_s))


def test_the_longest_gap_is_that_of_one_producer_in_one_partition() -> None:
    events: list[Event] = [
        acknowledged(1, 0),
        acknowledged(2, 1),
        SendInvoked(3 * S, "t", 1, "p", 3),
        acknowledged(4, 0),
        acknowledged(4.5, 1, "q"),
        acknowledged(6, 1),
    ]
    gap = longest_gap(events, 0, 10 * S)
    assert (gap.duration_s, gap.began_ns, gap.producer, gap.partition) == (4.0, 2 * S, "p", TopicPartition("t", 1))
    assert str(gap) == "4.00 s without an acknowledgement for p on t-1"


def test_a_gap_counts_when_it_ends_within_the_moments() -> None:
    events = [acknowledged(at_s, 0) for at_s in (1, 4, 5, 9)]
    assert longest_gap(events, 2 * S, 6 * S).duration_s == 3.0
    assert longest_gap(events, 4 * S, 6 * S).duration_s == 1.0
    assert longest_gap(events, 4 * S, 10 * S).duration_s == 4.0
    assert longest_gap([], 0, S).duration_s == 0.0


class StillWriter(Writer):
    def _run(self) -> None:
        pass

    def due(self, elapsed_s: float) -> list[int]:
        return self._find_due(elapsed_s)

    def begin(self, partition: int) -> None:
        for _ in range(5):
            self._start_record(partition)

    def acknowledge(self, partition: int) -> None:
        for offset, value in enumerate(list(self._open[partition])):
            self._record_acknowledgement(partition, value, offset)


def test_bursts_take_turns_at_the_rate_asked_for() -> None:
    writer = StillWriter(Recorder(), "", WriterOptions("w", "t", 3, records_per_s=50))
    assert writer.due(0.0) == []
    assert writer.due(0.2) == [0, 1]
    assert writer.due(0.2) == []
    assert writer.due(0.35) == [2]
    assert writer.due(100.0) == [0, 1, 2]  # a pause is not made up for
    assert writer.due(100.1) == [1]


def test_without_idempotence_a_partition_waits_for_its_acknowledgements() -> None:
    recorder = Recorder()
    writer = StillWriter(recorder, "", WriterOptions("w", "t", 2, idempotent=False, records_per_s=50))
    writer.begin(0)
    assert writer.due(0.2) == [1]
    writer.acknowledge(0)
    assert writer.due(0.4) == [0, 1]
    assert writer.acknowledged == 5
    assert [type(event).__name__ for event in recorder.events] == ["SendInvoked"] * 5 + ["SendAcknowledged"] * 5


def test_what_is_open_at_the_end_has_an_unknown_fate() -> None:
    recorder = Recorder()
    writer = StillWriter(recorder, "", WriterOptions("w", "t", 1))
    writer.start()
    writer.begin(0)
    writer.finish()
    assert [type(event).__name__ for event in recorder.events[-5:]] == ["SendUnknown"] * 5
    assert len(writer.problems) == 5


def test_a_client_that_was_told_of_fewer_partitions_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka does not ask again for minutes: the marks of a topic were given up though every broker had them."""
    clients: list[Consumer] = []

    class Consumer:
        def __init__(self, settings: dict[str, Any]) -> None:
            self.partitions = 1 + 2 * len(clients)
            self.closed = False
            clients.append(self)

        def get_watermark_offsets(self, wanted: confluent_kafka.TopicPartition, **_: Any) -> tuple[int, int]:
            if wanted.partition >= self.partitions:
                raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(-190))
            return 0, 5

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(workload.confluent_kafka, "Consumer", Consumer)
    monkeypatch.setattr(workload, "_ASK_AGAIN_S", 0)
    assert workload._watermarks("s:1", "t", [5, 5, 5], 60) == [(0, 5)] * 3
    assert [each.closed for each in clients] == [True, True]
