"""Reaching a cluster: addresses, bootstrap, refreshes that share a round."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.client.cluster.client import ClusterClient, version_for
from kafkalite.client.errors import ClientClosedError, ClientError, NoBrokersAvailableError
from kafkalite.client.options import ConnectionOptions
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.messages import metadata_response
from kafkalite.testing.simulation import virtual_time
from tests.unit.client.fake_broker import HANG, FakeCluster, FakeConnection


def client(cluster: FakeCluster, servers: str = "fake:9001,fake:9002") -> ClusterClient:
    return ClusterClient(
        ConnectionOptions(bootstrap_servers=servers, opener=cluster.open, retry_backoff_ms=1, retry_backoff_max_ms=2)
    )


@pytest.mark.parametrize(
    ("message", "is_asked"),
    [(messages.DescribeLogDirsRequest(), True), (messages.DeleteTopicsRequest(), False)],
)
def test_log_directories_are_asked_for_in_the_only_version_of_old_brokers(message: Any, is_asked: bool) -> None:
    """Brokers before 2.0 speak version 0, which Kafka 4 has dropped."""

    def version_of(key: int, *, with_dropped: bool) -> int:
        if not with_dropped:
            raise ValueError("it speaks 0 to 0")
        return 0

    connection: Any = SimpleNamespace(version_of=version_of)
    if is_asked:
        assert version_for(connection, message) == 0
    else:
        with pytest.raises(ClientError, match="it speaks 0 to 0"):
            version_for(connection, message)


def test_one_server_that_answers_is_enough() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.unreachable = {1}

    async def scenario() -> None:
        target = client(cluster)
        await target.connect(5)
        assert set(target.view.brokers) == {1, 2}
        await target.close()

    virtual_time.run(scenario())


@pytest.mark.parametrize("silent", [{1}, {1, 2}])
def test_a_broker_that_does_not_speak_an_api_is_passed_over(monkeypatch: pytest.MonkeyPatch, silent: set[int]) -> None:
    """So is one that only leads for another cluster (`kafkalite mirror`)."""
    cluster, speaks = FakeCluster({"t": 1}), FakeConnection.version_of

    def version_of(connection: FakeConnection, api_key: int, *, with_dropped: bool = False) -> int:
        if connection.broker_id in silent:
            raise ValueError(f"broker {connection.broker_id} does not speak it")
        return speaks(connection, api_key, with_dropped=with_dropped)

    async def scenario() -> None:
        target = client(cluster)
        await target.connect(5)
        monkeypatch.setattr(FakeConnection, "version_of", version_of)
        if 2 in silent:
            with pytest.raises(ClientError, match="does not speak it"):
                await target.request_any(messages.MetadataRequest(topics=[]))
        else:
            for _ in range(3):
                assert len((await target.request_any(messages.MetadataRequest(topics=[]))).brokers) == 2
        await target.close()

    virtual_time.run(scenario())


def test_a_broker_that_has_just_started_is_asked_until_it_knows_the_cluster() -> None:
    cluster = FakeCluster({"t": 1}, brokers=1)
    nobody = metadata_response.MetadataResponse(brokers=[], topics=[])
    cluster.script[ApiKey.METADATA].extend([nobody, nobody])

    async def scenario() -> None:
        target = client(cluster, "fake:9001")
        await target.connect(5)
        assert set(target.view.brokers) == {1}
        await target.close()
        target = client(cluster, "fake:9001")
        cluster.script[ApiKey.METADATA].extend([nobody] * 10_000)
        with pytest.raises(NoBrokersAvailableError, match="fake:9001: it knows of no broker yet"):
            await target.connect(0.1)
        await target.close()

    virtual_time.run(scenario())


def test_an_address_that_only_a_broker_names_is_told_apart() -> None:
    """Who reaches the bootstrap server and no leader has mostly to do with wrong `advertised.listeners`."""
    cluster = FakeCluster({"t": 1})
    cluster.unreachable = {2}

    async def scenario() -> None:
        target = client(cluster, "fake:9001")
        await target.connect(5)
        with pytest.raises(ConnectionError, match=r"no connection to fake:9002: .*advertised\.listeners name that"):
            await target.connection(2)
        assert "advertised.listeners" in target.problem_of(2)
        cluster.unreachable = set()
        await target.connection(2)
        assert target.problem_of(2) == ""
        await target.close()

    virtual_time.run(scenario())


def test_servers_that_are_silent_are_named_after_the_timeout() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.unreachable = {1}
    cluster.script[ApiKey.METADATA].append(HANG)

    async def scenario() -> None:
        target = client(cluster)
        with pytest.raises(NoBrokersAvailableError) as raised:
            await target.connect(0.05)
        assert "refused" in raised.value.reasons["fake:9001"]
        assert "no answer within 0.05 s" in raised.value.reasons["fake:9002"]
        await target.close()

    virtual_time.run(scenario())


def test_refreshes_that_meet_share_a_round() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        target = client(cluster)
        await target.connect(5)
        before = len(cluster.requests_of(ApiKey.METADATA))
        await asyncio.gather(*(target.refresh() for _ in range(10)))
        assert len(cluster.requests_of(ApiKey.METADATA)) - before == 2, "one that ran and one that waited"
        await target.close()
        with pytest.raises(ClientClosedError):
            await target.refresh()

    virtual_time.run(scenario())


def test_metadata_is_asked_of_another_broker_when_one_is_gone() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        target = client(cluster, "fake:9001")
        await target.connect(5)
        cluster.unreachable = {1}
        for each in cluster.connections:
            each.close()
        await target.refresh()
        assert cluster.requests[-1][0] == 2
        cluster.unreachable = {1, 2}
        for each in cluster.connections:
            each.close()
        with pytest.raises(NoBrokersAvailableError):
            await target.refresh()
        await target.close()

    virtual_time.run(scenario())


def test_a_connection_failed_after_who_wanted_it_was_cancelled() -> None:
    """The loop was told of an exception that nobody retrieved."""
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        target = client(cluster, "fake:9001")
        await target.connect(5)
        (connection,) = [each for each in cluster.connections if not each.closed]
        connection.close()
        gate = asyncio.Event()

        async def refuse(host: str, port: int) -> Any:
            await gate.wait()
            raise ConnectionError("refused")

        target._opener = refuse
        wanting = asyncio.ensure_future(target.connection(1))
        await virtual_time.settle()
        wanting.cancel()
        await virtual_time.settle()
        gate.set()
        await virtual_time.settle()
        gc.collect()
        await target.close()

    virtual_time.run(scenario())
