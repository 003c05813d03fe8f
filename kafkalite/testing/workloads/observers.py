"""Observers of a cluster for a history: who leads by ZooKeeper and by each broker's metadata, and the high watermarks.

High watermarks are asked for with the leader's epoch in the request (KIP-320), so that only the leader of that epoch answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kazoo.protocol.states import ZnodeStat

from kafkalite.errors import ErrorCode
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.testing.history.events import ControllerElected, ControllerWrote, HighWatermarkSeen, LeaderSeen
from kafkalite.testing.history.recorder import Recorder
from kafkalite.testing.workloads.threads import WorkloadThread
from kafkalite.types import NO_BROKER
from zk import paths
from zk.znodes.controller import ControllerEpoch
from zk.znodes.fields import MalformedZnodeError
from zk.znodes.topics import PartitionState

_PERIOD_S: Final = 0.2
_TIMEOUT_S: Final = 1.0
_METADATA_VERSION: Final = 9
_FETCH_VERSION: Final = 12


def observe_zookeeper(recorder: Recorder, facts: ClusterFacts, topic: str, partitions: int) -> None:
    """Record every leader that ZooKeeper names for the topic, and the controllers, until the session of `facts` is closed."""
    facts.client.DataWatch(paths.CONTROLLER_EPOCH)(partial(_record_controller, recorder))
    for partition in range(partitions):
        changed = partial(_record_state, recorder, topic, partition)
        facts.client.DataWatch(paths.partition_state(topic, partition))(changed)


def _record_state(recorder: Recorder, topic: str, partition: int, data: bytes | None, stat: ZnodeStat | None) -> None:
    if data is None:
        return
    try:
        state = PartitionState.decode(data)
    except MalformedZnodeError:
        return  # somebody writes garbage on purpose; an error here would end the watch, and the thread of all watches
    if stat is not None:
        path = paths.partition_state(topic, partition)
        recorder.add(ControllerWrote(recorder.now_ns(), stat.mzxid, NO_BROKER, state.controller_epoch, path))
    recorder.add(LeaderSeen(recorder.now_ns(), "ZooKeeper", topic, partition, state.leader_epoch, state.leader))


def _record_controller(recorder: Recorder, data: bytes | None, stat: ZnodeStat | None) -> None:
    if data is None or stat is None:
        return
    try:
        epoch = ControllerEpoch.decode(data).epoch
    except MalformedZnodeError:
        return  # garbage, as in _record_state
    recorder.add(ControllerElected(recorder.now_ns(), stat.mzxid, NO_BROKER, epoch))


class BrokerObserver(WorkloadThread):
    """Asks every broker for its metadata and its high watermarks, a few times a second; brokers may come and go.

    `addresses` are theirs by broker id, whatever they tell clients: there may be proxies on that way.
    """

    def __init__(self, recorder: Recorder, addresses: Mapping[int, tuple[str, int]], topic: str) -> None:
        super().__init__(recorder, "observer")
        self._addresses = addresses
        self._topic = topic
        self._connections = 0

    def _run(self) -> None:
        asyncio.run(self._observe())

    async def _observe(self) -> None:
        await asyncio.gather(*(self._observe_broker(each, *address) for each, address in self._addresses.items()))

    async def _observe_broker(self, broker_id: int, host: str, port: int) -> None:
        while not self._stopping.is_set():
            try:
                connection = await Connection.open(host, port, client_id="observer", timeout_s=_TIMEOUT_S)
            except (OSError, TimeoutError):
                await asyncio.sleep(_PERIOD_S)
                continue
            self._connections += 1
            try:
                await self._observe_connection(
                    connection, broker_id, f"connection {self._connections} to {host}:{port}"
                )
            except (OSError, TimeoutError):
                pass  # killed or paused: try again
            except Exception as problem:
                self.problems.append(f"observer of {host}:{port}: {problem!r}")
                return
            finally:
                connection.close()

    async def _observe_connection(self, connection: Connection, broker_id: int, observer: str) -> None:
        high_watermarks: dict[int, int] = {}
        while not self._stopping.is_set():
            epochs, own = await self._leaders(connection, broker_id, observer)
            led = {partition: epochs[partition] for partition in own}
            if led:
                await self._high_watermarks(connection, observer, led, high_watermarks)
            await asyncio.sleep(_PERIOD_S)

    async def _leaders(self, connection: Connection, broker_id: int, observer: str) -> tuple[dict[int, int], list[int]]:
        """Return the leader epochs, and the partitions that this broker leads by its own metadata."""
        wanted = messages.metadata_request.MetadataRequestTopic(name=self._topic)
        request = messages.metadata_request.MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
        response = await connection.request(request, _METADATA_VERSION, _TIMEOUT_S)
        epochs, own = {}, []
        for partition in response.topics[0].partitions:
            index, epoch, leader = partition.partition_index, partition.leader_epoch, partition.leader_id
            self._recorder.add(LeaderSeen(self._recorder.now_ns(), observer, self._topic, index, epoch, leader))
            epochs[index] = epoch
            if leader == broker_id:
                own.append(index)
        return epochs, own

    async def _high_watermarks(
        self, connection: Connection, observer: str, led: dict[int, int], known: dict[int, int]
    ) -> None:
        request = messages.fetch_request.FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1, topics=[self._fetch_topic(led, known)], forgotten_topics_data=[]
        )
        response = await connection.request(request, _FETCH_VERSION, _TIMEOUT_S)
        for partition in (each for topic in response.responses for each in topic.partitions):
            index = partition.partition_index
            if partition.error_code == ErrorCode.NONE:
                now_ns, mark = self._recorder.now_ns(), partition.high_watermark
                known[index] = mark
                self._recorder.add(HighWatermarkSeen(now_ns, observer, self._topic, index, led[index], mark))
            else:
                known.pop(index, None)

    def _fetch_topic(self, led: dict[int, int], known: dict[int, int]) -> Any:
        partitions = [
            messages.fetch_request.FetchPartition(
                partition=index,
                current_leader_epoch=epoch,
                fetch_offset=known.get(index, 0),
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=1,
            )
            for index, epoch in led.items()
        ]
        return messages.fetch_request.FetchTopic(topic=self._topic, partitions=partitions)
