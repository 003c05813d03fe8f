"""Metrics of the transactional ids that this broker coordinates, and of the markers that it sends to other brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from kafkalite.broker.observation.exposition import Family, gauge, gauges
from kafkalite.broker.parts import HasTransactions

if TYPE_CHECKING:
    from kafkalite.broker.coordination.marker_sender import MarkerSender


class Parts(HasTransactions, Protocol):
    """The parts of a broker that these metrics read."""

    @property
    def marker_sender(self) -> MarkerSender: ...


def families(parts: Parts) -> Iterator[Family]:
    """Return the families. A transaction that stays prepared waits for leaders of its partitions, which is worth an alert."""
    counts = [machine.statistics() for machine in parts.transactions.loaded_machines()]
    yield gauge(
        "kafkalite_transactional_ids",
        "Transactional ids that this broker coordinates.",
        sum(each["ids"] for each in counts),
    )
    yield gauges(
        "kafkalite_transactions",
        "Transactions that are open (ongoing), or decided and not completed (prepared).",
        "state",
        [(state, sum(each[state] for each in counts)) for state in ("ongoing", "prepared")],
    )
    yield gauge(
        "kafkalite_transaction_markers_awaited",
        "Markers that are to be written by leaders of partitions.",
        parts.marker_sender.statistics()["partitions"],
    )
