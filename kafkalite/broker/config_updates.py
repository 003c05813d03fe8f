"""What a broker does when a configuration in ZooKeeper has changed: topics, its own settings, quotas, users."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalite.broker.settings.quota_znodes import entity_of, quotas_in, settings_of
from zk import paths

if TYPE_CHECKING:
    from kafkalite.broker.identity.user_lookup import UserCredentials
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.broker.settings.dynamic_configs import DynamicConfigs
    from kafkalite.broker.settings.quotas import ClientQuotas
    from kafkalite.types import BrokerId


class ConfigUpdates:
    """See the module. `topic_changed(topic, overrides)` tells the controller."""

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

    async def take(self, entity_type: str, entity_name: str) -> None:
        """Read what holds now for the entity that a notification names, and obey it."""
        if entity_type == "topics":
            await self._take_topic(entity_name)
            self._topic_changed(entity_name, await self._configs.read(paths.topic_config(entity_name)))
        elif entity_type == "brokers" and entity_name in (paths.DEFAULT_ENTITY, str(self._broker_id)):
            await self._configs.load_broker(self._broker_id)
            for topic in sorted({tp.topic for tp in self._replicas.partitions}):
                await self._take_topic(topic)
        elif (entity := entity_of(entity_type, entity_name)) is not None:
            settings = await settings_of(self._configs.read, entity)
            self._quotas.take(entity, quotas_in(entity, settings))
            self._users.take(entity, settings)

    async def _take_topic(self, topic: str) -> None:
        self._replicas.take_topic_config(topic, await self._configs.topic(topic))
