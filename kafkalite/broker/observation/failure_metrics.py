"""Metrics of failure detection on this broker: verdicts about others by their evidence, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from kafkalite.broker.failure_detection.evidence import Evidence
from kafkalite.broker.failure_detection.failure_detection import Outcome
from kafkalite.broker.observation.exposition import Family, counters, gauge

if TYPE_CHECKING:
    from kafkalite.broker.failure_detection.failure_detection import FailureDetection


class Parts(Protocol):
    """The parts of a broker that these metrics read."""

    @property
    def failure_detection(self) -> FailureDetection: ...


def families(parts: Parts) -> Iterator[Family]:
    """Return the families. A wrong verdict is worth an alert: silence that a broker may well keep was taken for its death."""
    detection = parts.failure_detection
    yield counters(
        "kafkalite_failure_verdicts_total",
        "Brokers that this one has taken for dead together with another one, by the evidence; certain: its predecessor, at the start.",
        "evidence",
        [(each.name.lower(), detection.verdicts[each]) for each in Evidence],
    )
    yield counters(
        "kafkalite_failure_verdict_outcomes_total",
        "What became of verdicts, and what it turned out that they were; with kafkalite.failover.detection=observe no session is ended.",
        "outcome",
        [(each.value, detection.outcomes[each]) for each in Outcome],
    )
    yield gauge(
        "kafkalite_failure_detection_patience",
        "How many times the usual evidence is needed, because of wrong verdicts.",
        detection.patience,
    )
