"""AlterConfigs and IncrementalAlterConfigs on a store in memory."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkalite.broker.handlers.describe_configs import BROKER
from kafkalite.broker.settings.dynamic_configs import DynamicConfigs
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.security.password_encoder import decode_password
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.broker_settings import live_config
from tests.unit.broker.identity.test_acl_authorizer import lose_answers
from tests.unit.broker.memory_parts import MemoryParts
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.top_level import create_top_level
from zk.znodes import ConfigEntity


def test_a_throttle_held_only_once_the_notification_had_come() -> None:
    """A reassignment that began right after it moved megabytes before."""
    m = messages.incremental_alter_configs_request
    name, config = "follower.replication.throttled.rate", live_config()

    async def alter(parts: MemoryParts, broker: str, value: str, *, validate_only: bool = False) -> int:
        entry = m.AlterableConfig(name=name, config_operation=0, value=value)
        resource = m.AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[entry])
        request = m.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        (response,) = (await parts.ask(request, 1)).responses
        return int(response.error_code)

    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(10)
        await create_top_level(store)
        parts = MemoryParts()
        parts.dynamic_configs = DynamicConfigs(store, config)
        before = config.current.follower_replication_throttled_rate
        assert await alter(parts, "1", "5", validate_only=True) == ErrorCode.NONE
        assert config.current.follower_replication_throttled_rate == before
        assert await alter(parts, "", "7") == ErrorCode.NONE
        assert config.current.follower_replication_throttled_rate == 7, "the cluster's default"
        assert await alter(parts, "1", "5") == ErrorCode.NONE
        assert config.current.follower_replication_throttled_rate == 5
        assert await alter(parts, "1", "no number") == ErrorCode.INVALID_REQUEST
        assert config.current.follower_replication_throttled_rate == 5
        await store.close()

    virtual_time.run(scenario())


def test_passwords_are_encrypted_in_zookeeper_and_refused_without_a_secret_for_that() -> None:
    """As Kafka's DynamicBrokerConfig; the znode is one that the world may read."""
    m = messages.incremental_alter_configs_request
    password, other = "listener.name.x.ssl.keystore.password", "listener.name.x.ssl.client.auth"

    async def alter(parts: MemoryParts, broker: str, **values: str) -> tuple[int, str | None]:
        named = {"password": password, "other": other}
        configs = [m.AlterableConfig(name=named[key], config_operation=0, value=text) for key, text in values.items()]
        resource = m.AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=configs)
        (response,) = (await parts.ask(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses
        return int(response.error_code), response.error_message

    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(10)
        await create_top_level(store)
        parts = MemoryParts()

        def broker(**settings: str) -> DynamicConfigs:
            config = live_config(**settings)
            parts.dynamic_configs = DynamicConfigs(store, config)
            return parts.dynamic_configs

        async def kept() -> dict[str, str]:
            data, _ = await store.read(paths.broker_config(1))
            return dict(ConfigEntity.decode(data).config)

        broker()
        code, message = await alter(parts, "1", password="s3cret")
        assert (code, message) == (
            ErrorCode.INVALID_REQUEST,
            "Invalid config value for resource ConfigResource(type=BROKER, name='1'): Password encoder secret not configured",
        )
        running = broker(password_encoder_secret="first")
        code, message = await alter(parts, "", password="s3cret")
        assert (code, "only at broker level" in str(message)) == (ErrorCode.INVALID_REQUEST, True)
        assert (await alter(parts, "1", password="s3cret"))[0] == ErrorCode.NONE
        encrypted = (await kept())[password]
        assert "s3cret" not in encrypted and decode_password(encrypted, "first") == "s3cret"
        assert running.sources.per_broker == {password: "s3cret"}
        assert (await alter(parts, "1", other="none"))[0] == ErrorCode.NONE
        assert await kept() == {password: encrypted, other: "none"}, "what does not change stays as it is"
        renewed = broker(password_encoder_secret="second", password_encoder_old_secret="first")
        await renewed.load_broker(1)
        assert renewed.sources.per_broker == {password: "s3cret", other: "none"}
        lost = broker(password_encoder_secret="third")
        await lost.load_broker(1)
        assert lost.sources.per_broker == {other: "none"}
        await store.close()

    virtual_time.run(scenario())


@pytest.mark.parametrize("entity", ["users/alice", "topics/t"])
def test_a_change_whose_answer_was_lost_was_made_twice(entity: str) -> None:
    """A deleted credential was deleted again, refused, and never announced: brokers went on accepting it."""

    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(10)
        await create_top_level(store)
        configs = DynamicConfigs(store, live_config())
        for change in (put, delete):
            announced = len(await store.children(paths.CONFIG_CHANGES))
            lose_answers(store, 1)
            await configs.change(entity, change, lambda wanted: None, validate_only=False)
            assert len(await store.children(paths.CONFIG_CHANGES)) == announced + 1
        assert await configs.read(paths.config(entity)) == {}
        await store.close()

    def put(current: Mapping[str, str]) -> dict[str, str]:
        return {**current, "key": current.get("key", "") + "x"}

    def delete(current: Mapping[str, str]) -> dict[str, str]:
        if current != {"key": "x"}:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND)
        return {}

    virtual_time.run(scenario())
