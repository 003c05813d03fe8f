"""Changed configurations in ZooKeeper applied to a broker (KIP-226): topics, its own settings, quotas, users.

`ConfigUpdates` reads the entity that a notification names. Most of the broker reads its settings at their next use; `follow_settings`
starts what has to be done at once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from kafkalite.broker.settings.quota_znodes import entity_of, quotas_in, settings_of
from zk import paths

if TYPE_CHECKING:
    from kafkalite.broker.connections.server import Server
    from kafkalite.broker.identity.user_lookup import UserCredentials
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.broker.settings.dynamic_configs import DynamicConfigs
    from kafkalite.broker.settings.quotas import ClientQuotas
    from kafkalite.config.broker import BrokerConfig, LiveConfig
    from kafkalite.lifecycle import Jobs
    from kafkalite.storage.directories.cleaner import LogCleaner
    from kafkalite.types import BrokerId


class ConfigUpdates:
    """Applies changed configurations to the parts of this broker; `topic_changed(topic, overrides)` notifies the controller."""

    def __init__(
        self,
        broker_id: BrokerId,
        configs: DynamicConfigs,
        replicas: Replicas,
        quotas: ClientQuotas,
        users: UserCredentials,
        topic_changed: Callable[[str, dict[str, str]], None],
    ) -> None:
        self._broker_id, self._configs, self._replicas, self._quotas = broker_id, configs, replicas, quotas
        self._users, self._topic_changed = users, topic_changed

    async def apply_change(self, entity_type: str, entity_name: str) -> None:
        """Read the configuration of the entity that a notification names, and apply it."""
        if entity_type == "topics":
            overrides = await self._configs.read(paths.topic_config(entity_name))
            self._replicas.apply_topic_configs({entity_name: self._configs.topic_config(entity_name, overrides)})
            self._topic_changed(entity_name, overrides)
        elif entity_type == "brokers" and entity_name in (paths.DEFAULT_ENTITY, str(self._broker_id)):
            await self._configs.load_broker(self._broker_id)
            topics = sorted({each.topic for each in self._replicas.partitions})
            self._replicas.apply_topic_configs(await self._configs.topics(topics))
        elif (entity := entity_of(entity_type, entity_name)) is not None:
            settings = await settings_of(self._configs.read, entity)
            self._quotas.take(entity, quotas_in(entity, settings))
            self._users.take(entity, settings)


def follow_settings(
    config: LiveConfig,
    jobs: Jobs,
    server: Server,
    cleaner: LogCleaner,
    announce: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """Subscribe to changed settings: bind listeners and `announce` them, renew security, resolve host names, start log cleaners."""

    async def rebind_listeners() -> None:
        await server.rebind()
        await announce()

    def apply_settings(before: BrokerConfig, after: BrokerConfig) -> None:
        if (before.listeners, before.advertised_listeners) != (after.listeners, after.advertised_listeners):
            jobs.retry(rebind_listeners, "listeners")
        if before.originals != after.originals and any(
            each.security_protocol != "PLAINTEXT" for each in after.listeners
        ):
            jobs.retry(server.renew_security, "security of listeners")
        if before.max_connections_per_ip_overrides != after.max_connections_per_ip_overrides:
            jobs.retry(server.resolve_names, "names of max.connections.per.ip.overrides")
        if after.log_cleaner_enable:
            cleaner.start_workers(jobs.retry)

    config.subscribe(apply_settings)
