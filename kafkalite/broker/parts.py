"""The parts of the broker by the names that handlers and metrics know them by, one protocol for each.

A module states what it needs as a `Parts` of its own that combines these, so that its tests need no more than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.broker.settings.dynamic_configs import DynamicConfigs
    from kafkalite.broker.settings.quotas import ClientQuotas
    from kafkalite.broker.topic_creation import TopicCreation
    from kafkalite.broker.traffic import Traffic
    from kafkalite.clock import Clock
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinators.group.machine import GroupMachine
    from kafkalite.coordinators.runtime import CoordinatorRuntime
    from kafkalite.coordinators.transaction.machine import TransactionMachine
    from kafkalite.lifecycle import Jobs
    from kafkalite.types import BrokerId
    from zk.store import Store


class HasBrokerId(Protocol):
    @property
    def broker_id(self) -> BrokerId: ...


class HasClock(Protocol):
    @property
    def clock(self) -> Clock: ...


class HasClusterId(Protocol):
    @property
    def cluster_id(self) -> str: ...


class HasConfig(Protocol):
    @property
    def config(self) -> BrokerConfig: ...


class ControllerRole(Protocol):
    @property
    def is_active(self) -> bool: ...


class HasControllerRole(Protocol):
    @property
    def controller(self) -> ControllerRole: ...


class HasDynamicConfigs(Protocol):
    @property
    def dynamic_configs(self) -> DynamicConfigs: ...


class HasGroups(Protocol):
    @property
    def groups(self) -> CoordinatorRuntime[GroupMachine]: ...


class HasJobs(Protocol):
    @property
    def jobs(self) -> Jobs: ...


class HasMetadata(Protocol):
    @property
    def metadata(self) -> MetadataCache: ...


class HasQuotas(Protocol):
    @property
    def quotas(self) -> ClientQuotas: ...


class HasReplicas(Protocol):
    @property
    def replicas(self) -> Replicas: ...


class HasStore(Protocol):
    @property
    def store(self) -> Store: ...


class HasTopicCreation(Protocol):
    @property
    def topic_creation(self) -> TopicCreation: ...


class HasTraffic(Protocol):
    @property
    def traffic(self) -> Traffic: ...


class HasTransactions(Protocol):
    @property
    def transactions(self) -> CoordinatorRuntime[TransactionMachine]: ...
