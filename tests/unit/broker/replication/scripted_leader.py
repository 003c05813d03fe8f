"""The fetchers of a broker that follows a leader whose answers the test gives, under virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafkalite.broker.replication import leader_fetcher
from kafkalite.broker.replication.leader_fetcher import FetcherContext
from kafkalite.broker.replication.replica_fetchers import ReplicaFetchers
from kafkalite.broker.settings.rates import ReplicationRate
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.protocol import messages
from kafkalite.protocol.apis import APIS
from kafkalite.protocol.inter_broker import ProtocolVersion
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import Endpoint
from tests.unit.broker.fake_log import FakeLog, assignment, make_partition


class FakeLeader:
    """Stands where `Connection` is: notes the requests, and answers as the test says."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.requests: list[Any] = []
        self.versions: list[int] = []
        """Of the requests."""
        self.spoken = {key: (0, APIS[key].max_version) for key in APIS}
        self.opened = 0
        self.is_down = False

    async def open(self, host: str, port: int, **options: Any) -> FakeConnection:
        self.opened += 1
        if self.is_down:
            raise ConnectionError("refused")
        return FakeConnection(self)


class FakeConnection:
    """One connection to the fake leader; an answer that is None waits for the end of the long poll."""

    def __init__(self, leader: FakeLeader) -> None:
        self.leader = leader
        self.closed = False
        self.in_flight = 0
        self._ended = asyncio.Event()

    async def negotiate(self, timeout_s: float) -> None:
        self.versions = self.leader.spoken

    async def request(self, message: Any, version: int, timeout_s: float = 30.0) -> Any:
        self.leader.requests.append(message)
        self.leader.versions.append(version)
        self.in_flight += 1
        try:
            reply = self.leader.answer(message)
            if asyncio.isfuture(reply):
                reply = await reply
            if reply is not None:
                await asyncio.sleep(0.001)
                return reply
            async with asyncio.timeout(message.max_wait_ms / 1000):
                await self._ended.wait()
            raise ConnectionError("closed")
        except TimeoutError:
            return messages.fetch_response.FetchResponse(session_id=5)
        finally:
            self.in_flight -= 1

    def close(self) -> None:
        self.closed = True
        self._ended.set()


def partition_answer(**fields: Any) -> Any:
    m = messages.fetch_response
    data = m.PartitionData(**{"high_watermark": 0, "records": b"", **fields})
    topic = m.FetchableTopicResponse(topic="t", topic_id=bytes(range(16)), partitions=[data])
    return m.FetchResponse(session_id=5, responses=[topic])


class Following:
    """The fetchers of broker 1, which follow broker 2."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, answer: Callable[[Any], Any], protocol_version: str = "3.9"
    ) -> None:
        self.leader = FakeLeader(answer)
        monkeypatch.setattr(leader_fetcher.Connection, "open", self.leader.open)
        self.endpoint: Endpoint | None = Endpoint("L", "h", 1)
        loop = asyncio.get_running_loop()
        self.throttled_bytes_per_s = 1e18
        self.noted: list[tuple[int, int]] = []
        """Log starts that were written, each with the number of fetches until then."""
        self.throttled_rate = ReplicationRate(11, 1000, lambda: self.throttled_bytes_per_s)
        config = BrokerConfig.from_properties(
            {"broker.id": "1", "zookeeper.connect": "localhost:2181", "log.dirs": "unused"}
        )
        self.fetchers = ReplicaFetchers(
            FetcherContext(
                1,
                lambda: 9,
                LiveConfig(replace(config, replica_fetch_backoff_ms=1000)),
                ProtocolVersion.parse(protocol_version).requests,
                lambda leader: self.endpoint,
                lambda: loop.time() * 1000,
                lambda: 0,
                self.throttled_rate,
                lambda logs: self.noted.extend((log.log_start_offset, len(self.leader.requests)) for log in logs),
            )
        )

    def follow(self, log: FakeLog, leader_epoch: int = 1) -> Any:
        partition = make_partition(log)
        partition.become_follower(assignment(leader=2, leader_epoch=leader_epoch))
        self.fetchers.follow(partition, log.topic_id)
        return partition


def run(monkeypatch: pytest.MonkeyPatch, answer: Callable[[Any], Any], act: Callable[[Following], Any]) -> Following:
    async def scenario() -> Following:
        following = Following(monkeypatch, answer)
        await act(following)
        await following.fetchers.close()
        return following

    return virtual_time.run(scenario())
