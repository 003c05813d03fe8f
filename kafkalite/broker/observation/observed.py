"""A broker as far as metrics and status read it: the parts that exist from the start, and those of a serving broker.

Each module of metrics and status states in a protocol what it needs of the parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkalite.broker.broker_state import BrokerState
    from kafkalite.broker.connections.listener_security import ListenerSecurity
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.broker.observation import groups, request_metrics, topic_metrics, zookeeper_groups
    from kafkalite.broker.observation.controller_metrics import Parts as ControllerParts
    from kafkalite.broker.observation.transaction_metrics import Parts as TransactionParts
    from kafkalite.clock import Clock
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.lifecycle import Jobs, UnexpectedErrors
    from kafkalite.storage.directories.cleaner import LogCleaner
    from kafkalite.types import BrokerId
    from zk.store import Store


class ObservedParts(
    request_metrics.Parts,
    topic_metrics.Parts,
    groups.Parts,
    zookeeper_groups.Parts,
    ControllerParts,
    TransactionParts,
    Protocol,
):
    """The parts of a serving broker."""


class Serving(request_metrics.Serving, Protocol):
    """The dispatcher, servers and parts of a serving broker."""

    @property
    def parts(self) -> ObservedParts: ...


class Observed(Protocol):
    """A broker, from the beginning of its start on."""

    @property
    def broker_id(self) -> BrokerId: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def state(self) -> BrokerState: ...

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def store(self) -> Store: ...

    @property
    def security(self) -> ListenerSecurity: ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def errors(self) -> UnexpectedErrors: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def cleaner(self) -> LogCleaner: ...

    @property
    def serving(self) -> Serving | None:
        """None until the broker is running."""
