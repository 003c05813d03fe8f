"""Access of the tools to ZooKeeper with `--zookeeper`, as in Kafka 2.8."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite.legacy.command_line.failures import ToolError

if TYPE_CHECKING:
    from zk.kazoo_adapter.kazoo_store import KazooStore
    from zk.security.store_security import StoreSecurity
    from zk.store import Store

Result = TypeVar("Result")

CONNECT_TIMEOUT_S: Final = 30.0


def with_store(
    connect: str, work: Callable[[KazooStore], Coroutine[Any, Any, Result]], security: StoreSecurity | None = None
) -> Result:
    """Run a tool's coroutine with a connected store, by default as `tool_security` says. ToolError when there is no ensemble."""
    from zk.kazoo_adapter.kazoo_store import KazooStore
    from zk.store import NoAuthError, StoreError
    from zk.znodes import MalformedZnodeError

    if security is None:
        security = tool_security(None)

    async def run() -> Result:
        store = KazooStore(connect, security=security)
        try:
            await store.start(CONNECT_TIMEOUT_S)
            return await work(store)
        except (OSError, TimeoutError):
            raise ToolError(
                "Timed out waiting for connection while in state: CONNECTING",
                "kafka.zookeeper.ZooKeeperClientTimeoutException",
            ) from None
        except NoAuthError as problem:
            text = f"KeeperErrorCode = NoAuth for {problem.path}"
            raise ToolError(text, "org.apache.zookeeper.KeeperException$NoAuthException") from None
        except StoreError as problem:
            raise ToolError(str(problem), "org.apache.zookeeper.KeeperException") from None
        except MalformedZnodeError as problem:
            raise ToolError(str(problem), "org.apache.kafka.common.KafkaException") from None
        finally:
            await store.close()

    return asyncio.run(run())


def tool_security(tls_config_file: str | None) -> StoreSecurity:
    """Return the security of a ZooKeeper session by `--zk-tls-config-file` and the JAAS file in KAFKA_OPTS or KAFKALITE_JAAS_FILE. Raises
    ToolError.

    As in Kafka, a tool that is somebody for ZooKeeper protects the znodes that it makes.
    """
    from dataclasses import replace

    from kafkalite.config.keys import ConfigError
    from kafkalite.legacy.cluster.client_settings import properties_of
    from kafkalite.zookeeper_connection import environment_texts, security_of_texts

    try:
        found = security_of_texts(environment_texts(os.environ) | properties_of(tls_config_file))
    except ConfigError as problem:
        raise ToolError(str(problem), "org.apache.kafka.common.config.ConfigException") from None
    return replace(found, sets_acls=found.has_identity)


async def live_brokers(store: Store) -> dict[int, str | None]:
    """Return the racks of the registered brokers by id."""
    from zk import paths
    from zk.store import NoNodeError
    from zk.znodes.brokers import BrokerRegistration

    found: dict[int, str | None] = {}
    for name in sorted(filter(str.isdecimal, await store.children(paths.BROKER_IDS)), key=int):
        try:
            data, _ = await store.read(paths.broker(int(name)))
        except NoNodeError:
            continue  # it went away meanwhile
        found[int(name)] = BrokerRegistration.decode(data).rack
    return found


async def read_config(store: Store, entity_path: str) -> dict[str, str]:
    """Return the configuration overrides of an entity by its path below /config, none when there is no znode."""
    from zk import paths
    from zk.store import NoNodeError
    from zk.znodes.configs import ConfigEntity

    try:
        data, _ = await store.read(paths.config(entity_path))
    except NoNodeError:
        return {}
    return dict(ConfigEntity.decode(data).config)


async def write_config(store: Store, entity_path: str, overrides: dict[str, str]) -> None:
    """Replace the overrides of an entity, and tell the brokers."""
    from zk import paths
    from zk.store import NodeExistsError
    from zk.znodes.configs import ConfigChange, ConfigEntity

    path, data = paths.config(entity_path), ConfigEntity(overrides).encode()
    try:
        await store.create(path, data, parents=True)
    except NodeExistsError:
        await store.write(path, data)
    await store.create(paths.CONFIG_CHANGE_PREFIX, ConfigChange(entity_path).encode(), sequence=True, parents=True)
