"""AlterConfigs and IncrementalAlterConfigs on a store in memory."""

from __future__ import annotations

from kafkalite.broker.dynamic_configs import DynamicConfigs
from kafkalite.broker.handlers.describe_configs import BROKER
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.memory_parts import MemoryParts
from tests.unit.broker.settings import live_config
from zk.memory_store import MemoryStore, MemoryZooKeeper
from zk.top_level import create_top_level


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
