"""A cluster of one broker whose handlers serve partitions in memory: clients' requests go through dispatch and the codec of both sides."""

from __future__ import annotations

import asyncio
from typing import Any

from kafkalite.broker.replication.partition import Partition
from kafkalite.protocol import messages
from kafkalite.protocol.apis import APIS, CLIENT_SOFTWARE_NAME, ApiKey
from tests.unit.broker.memory_parts import MemoryParts

_ASKING = messages.ApiVersionsRequest(client_software_name=CLIENT_SOFTWARE_NAME, client_software_version="1")


class ServedConnection:
    """What a client sees as `kafkalite.net.connection.Connection`, to a broker that speaks what it tells clients of ours."""

    writing_paused = False
    in_flight = 0

    def __init__(self, cluster: ServedPartitions, versions: dict[int, int], host: str, port: int) -> None:
        self.host, self.port, self.closed = host, port, False
        self._cluster, self._versions = cluster, versions

    def version_of(self, api_key: int, *, with_dropped: bool = False) -> int:
        if api_key not in self._versions:
            raise ValueError(f"{APIS[api_key].name} is not spoken")
        return min(APIS[api_key].max_version, self._versions[api_key])

    def send(self, message: Any, version: int) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self.request(message, version))

    async def request(self, message: Any, version: int, timeout_s: float = 30.0) -> Any:
        self._cluster.asked.append(message.API.key)
        return await self._cluster.parts.ask(message, version)

    def close(self) -> None:
        self.closed = True


class ServedPartitions:
    """The cluster; `asked` has the keys of its requests. `unknown` are APIs that it does not know, as those of ours to Apache Kafka."""

    def __init__(self, *partitions: Partition, unknown: tuple[ApiKey, ...] = ()) -> None:
        self.parts = MemoryParts(*partitions)
        self.unknown = unknown
        self.asked: list[int] = []

    async def open(self, host: str, port: int) -> ServedConnection:
        spoken = (await self.parts.ask(_ASKING, 3)).api_keys
        versions = {each.api_key: each.max_version for each in spoken if each.api_key not in self.unknown}
        return ServedConnection(self, versions, host, port)
