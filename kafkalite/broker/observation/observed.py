"""A broker as far as metrics and status read it: the parts that exist from the start, and those of a serving broker.

Each module of metrics and status states in a protocol what it needs of the parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkalite.broker.parts import (
    HasBrokerId,
    HasClock,
    HasClusterId,
    HasConfig,
    HasJobs,
    HasMetadata,
    HasQuotas,
    HasStore,
)

if TYPE_CHECKING:
    from kafkalite.broker.broker_state import BrokerState
    from kafkalite.broker.connections.listener_security import ListenerSecurity
    from kafkalite.broker.observation import groups, request_metrics, topic_metrics, zookeeper_groups
    from kafkalite.broker.observation.controller_metrics import Parts as ControllerParts
    from kafkalite.broker.observation.failure_metrics import Parts as FailureParts
    from kafkalite.broker.observation.transaction_metrics import Parts as TransactionParts
    from kafkalite.lifecycle import UnexpectedErrors
    from kafkalite.storage.directories.cleaner import LogCleaner


class ObservedParts(
    HasQuotas,
    topic_metrics.Parts,
    groups.Parts,
    zookeeper_groups.Parts,
    ControllerParts,
    FailureParts,
    TransactionParts,
    Protocol,
):
    """The parts of a serving broker."""


class Serving(request_metrics.Serving, Protocol):
    """The dispatcher, servers and parts of a serving broker."""

    @property
    def parts(self) -> ObservedParts: ...


class Observed(HasBrokerId, HasClock, HasClusterId, HasConfig, HasJobs, HasMetadata, HasStore, Protocol):
    """A broker, from the beginning of its start on."""

    @property
    def state(self) -> BrokerState: ...

    @property
    def security(self) -> ListenerSecurity: ...

    @property
    def errors(self) -> UnexpectedErrors: ...

    @property
    def cleaner(self) -> LogCleaner: ...

    @property
    def serving(self) -> Serving | None:
        """None until the broker is running."""
