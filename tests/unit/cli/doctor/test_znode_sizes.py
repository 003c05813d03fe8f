"""How far znodes and lists of children are from `jute.maxbuffer`, and what the servers take; ports of this machine play them."""

from __future__ import annotations

import asyncio
import json
import struct

import pytest
from click.testing import CliRunner

from kafkalite.cli.doctor import znode_sizes
from kafkalite.cli.doctor.findings import Status
from kafkalite.cli.doctor.znode_sizes import Measured, judge, judge_servers, takes_request
from kafkalite.cli.main import main
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.size_limits import SizeLimits, list_bytes
from zk.znodes.topics import TopicAssignment

LIMITS = SizeLimits(request_bytes=1000, response_bytes=4000)


@pytest.mark.parametrize(
    ("size", "status"),
    [(10, Status.OK), (1999, Status.OK), (2000, Status.WARNING), (3200, Status.PROBLEM), (9000, Status.PROBLEM)],
)
def test_a_list_is_judged_by_what_brokers_read(size: int, status: Status) -> None:
    (found,) = judge([Measured(paths.TOPICS, size, 7)], LIMITS)
    assert (
        found.status is status
        and f"{paths.TOPICS} lists 7 znodes in {size} bytes" in found.found
        and "of 4000" in found.found
    )
    if found.remedy is not None:
        assert "delete topics" in found.remedy and "kafkalite.zookeeper.jute.maxbuffer" in found.remedy


@pytest.mark.parametrize(("size", "status"), [(499, Status.OK), (500, Status.WARNING), (800, Status.PROBLEM)])
def test_a_znode_is_judged_by_what_servers_take(size: int, status: Status) -> None:
    (found,) = judge([Measured(paths.topic("t"), size)], LIMITS)
    assert found.status is status and f"/brokers/topics/t has {size} bytes" in found.found and "of 1000" in found.found
    assert found.remedy is None or "fewer partitions" in found.remedy


def test_of_those_that_are_small_the_largest_are_named() -> None:
    measured = [
        Measured(paths.TOPICS, 40, 1),
        Measured(paths.CONSUMERS, 60, 2),
        Measured(paths.topic("t"), 10),
        Measured(paths.topic("u"), 20),
    ]
    (found,) = judge(measured, LIMITS)
    assert paths.CONSUMERS in found.found and paths.topic("u") in found.found and paths.topic("t") not in found.found
    assert len(list(judge([], LIMITS))) == 1
    large = [Measured(paths.TOPICS, 3900, 1), Measured(paths.topic("u"), 20), Measured(paths.topic("v"), 700)]
    assert [each.status for each in judge(large, LIMITS)] == [Status.PROBLEM, Status.WARNING]


def test_what_grows_with_a_cluster_is_measured_below_its_chroot() -> None:
    async def scenario() -> list[Measured]:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(10)
        for path in (paths.CONFIG_TOPICS, paths.topic("long"), paths.acls_of_type("Topic", is_prefixed=True) + "/p"):
            await store.create("/chroot" + path, parents=True)
        await store.create("/chroot" + paths.topic("t"), TopicAssignment({0: (1,)}).encode())
        return await znode_sizes.measure(store, "/chroot")

    measured = {each.path: each for each in asyncio.run(scenario())}
    assert measured[paths.TOPICS] == Measured(paths.TOPICS, list_bytes(("long", "t")), 2)
    assert measured[paths.CONFIG_TOPICS].children == measured[paths.DELETE_TOPICS].children == 0
    assert measured["/kafka-acl-extended/prefixed/Topic"].children == 1
    assert measured[paths.topic("t")].size_bytes > len(TopicAssignment({0: (1,)}).encode()) > 0
    assert {"/kafka-acl-extended/prefixed/Topic/p", paths.topic("long")} < measured.keys()


async def refuse_longer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As ZooKeeper's server does: it closes the connection at the length of a request that is too long."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    if size <= 1000:
        await reader.read(1)
    writer.close()


def test_servers_show_what_they_take_by_what_they_refuse() -> None:
    async def scenario() -> list[bool | None]:
        async with await asyncio.start_server(refuse_longer, "127.0.0.1", 0) as server:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            return [await takes_request(address, size) for size in (1000, 1001)]

    assert asyncio.run(scenario()) == [True, False]
    assert asyncio.run(takes_request("127.0.0.1:1", 10)) is None and asyncio.run(takes_request("z:x", 10)) is None


def test_servers_that_take_less_than_brokers_send_are_a_problem() -> None:
    (found,) = judge_servers({"z1:1": True, "z2:1": False, "z3:1": None}, LIMITS)
    assert found.status is Status.PROBLEM and found.found.startswith("z2:1: requests of 1000 bytes")
    assert "-Djute.maxbuffer=1000" in str(found.remedy)
    assert [each.status for each in judge_servers({"z1:1": True, "z3:1": None}, LIMITS)] == [Status.OK]
    assert [each.status for each in judge_servers({"z3:1": None}, LIMITS)] == [Status.SKIPPED]


@pytest.mark.parametrize(
    ("arguments", "environment", "size"),
    [
        ((), {}, 1_048_575),
        ((), {"KAFKALITE_ZOOKEEPER_JUTE_MAXBUFFER": "20000"}, 20_000),
        ((), {"KAFKA_OPTS": "-Djute.maxbuffer=0x10000"}, 65_536),
        (("-P", "zookeeper.connect=z:1", "-P", "kafkalite.zookeeper.jute.maxbuffer=30000"), {}, 30_000),
    ],
)
def test_the_limit_is_that_of_the_settings(
    arguments: tuple[str, ...], environment: dict[str, str], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def takes(address: str, size_bytes: int, security: object) -> bool:
        asked.append(size_bytes)
        return True

    monkeypatch.setattr(znode_sizes, "takes_request", takes)
    call = ["doctor", "--only", "zookeeper", "-z", "127.0.0.1:1", *arguments, "-o", "json"]
    result = CliRunner().invoke(main, call, env=environment)
    rows = {row["check"]: row for row in json.loads(result.stdout)}
    assert asked == [size] and str(size) in rows["jute.maxbuffer"]["found"]
