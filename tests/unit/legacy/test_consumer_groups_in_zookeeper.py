"""`kafka-consumer-groups --zookeeper` prints what 1.1.1 was seen to print for the same znodes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kafkalite.legacy.consumer_groups import tool, zookeeper
from zk import consumer_groups, paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import NoNodeError, Store
from zk.znodes import MalformedZnodeError, TopicAssignment

MEMBER = "idle_host-1700000000000-abcd1234"
NOTE = "Note: This will only show information about consumers that use ZooKeeper (not those using the Java consumer API).\n"
TITLES = "\nTOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID"


def subscription(*topics: str) -> bytes:
    return json.dumps({"version": 1, "subscription": dict.fromkeys(topics, 1), "pattern": "static"}).encode()


ZNODES = {
    paths.BROKER_IDS: b"",
    "/brokers/topics/orders": TopicAssignment({0: (1,), 1: (1,), 2: (1,)}).encode(),
    "/brokers/topics/clicks": TopicAssignment({0: (1,)}).encode(),
    f"/consumers/idle/ids/{MEMBER}": subscription("orders", "clicks"),
    "/consumers/dead/ids": b"",
    "/consumers/dead/owners/orders": b"",
    "/consumers/dead/owners/clicks": b"",
    "/consumers/dead/owners/nosuch": b"",
    "/consumers/dead/offsets/orders/0": b"4",
    "/consumers/dead/offsets/orders/2": b"9",
    "/consumers/two/ids/two_b": subscription("orders", "clicks"),
    f"/consumers/two/ids/{MEMBER}": subscription("orders"),
    "/consumers/two/owners/orders/2": f"{MEMBER}-0".encode(),
    "/consumers/two/offsets/orders/0": b"7",
    "/consumers/two/offsets/orders/1": b"7",
    "/consumers/two/offsets/orders/2": b"8",
    "/consumers/odd/ids": b"",
    "/consumers/odd/owners/clicks": b"",
    "/consumers/odd/offsets/clicks/0": b"x",
    "/consumers/gone/offsets/orders/0": b"1",
}


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Store], Coroutine[Any, Any, Any]]], Any]:
    """Runs a coroutine with a session to one ZooKeeper in memory, as the tool is made to do too."""
    server = MemoryZooKeeper()

    def with_store(work: Callable[[Store], Coroutine[Any, Any, Any]]) -> Any:
        async def run() -> Any:
            store = MemoryStore(server)
            await store.start(1)
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(run())

    async def fill(store: Store) -> None:
        for path, data in ZNODES.items():
            await store.create(path, data, parents=True)

    with_store(fill)
    monkeypatch.setattr(zookeeper, "with_store", lambda connect, work: with_store(work))
    return with_store


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert tool.main(["--zookeeper", "unused:1", *arguments]) == 0
    found = capsys.readouterr()
    assert found.err == NOTE
    return "\n".join(line.rstrip() for line in found.out.split("\n"))


def test_groups_are_listed(call: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--list").split() == ["dead", "gone", "idle", "odd", "two"]


@pytest.mark.parametrize(
    ("group", "told"),
    [
        (
            "dead",
            "Error: Could not fetch offset from zookeeper for group 'dead' partition 'clicks-0' "
            "due to missing offset data in zookeeper.\n"
            "Error: Could not fetch offset from zookeeper for group 'dead' partition 'orders-1' "
            "due to missing offset data in zookeeper.\n"
            f"{TITLES}\n"
            "clicks          0          -               -               -               -\n"
            "orders          0          4               -               -               -\n"
            "orders          1          -               -               -               -\n"
            "orders          2          9               -               -               -\n",
        ),
        (
            "idle",
            f"{TITLES}\n"
            f"-               -          -               -               -               {MEMBER}\n"
            f"-               -          -               -               -               {MEMBER}\n",
        ),
        (
            "two",
            f"{TITLES}\n"
            "orders          0          7               -               -               -\n"
            "orders          1          7               -               -               -\n"
            f"orders          2          8               -               -               {MEMBER}\n"
            "-               -          -               -               -               two_b\n"
            "-               -          -               -               -               two_b\n",
        ),
        ("absent", "Error: The consumer group 'absent' does not exist.\n"),
        (
            "gone",
            "Error: Executing consumer group command failed due to org.apache.zookeeper.KeeperException$NoNodeException: "
            "KeeperErrorCode = NoNode for /consumers/gone/ids\n",
        ),
        ("odd", 'Error: Executing consumer group command failed due to For input string: "x"\n'),
    ],
)
def test_groups_are_described(call: Any, capsys: pytest.CaptureFixture[str], group: str, told: str) -> None:
    assert printed(capsys, "--describe", "--group", group) == told


def test_groups_without_members_are_deleted(call: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def delete(*arguments: str) -> str:
        return printed(capsys, "--delete", *arguments)

    active = "Error: Delete for group 'two' failed because its consumers are still active.\n"
    assert delete("--group", "two") == active
    for group in ("absent", "gone"):
        told = f"Error: Delete for group '{group}' failed because group does not exist.\n"
        assert delete("--group", group) == told
    about_topic = "Deleted consumer group information for group 'dead' topic 'orders' in zookeeper.\n"
    assert delete("--group", "dead", "--topic", "orders") == about_topic
    assert call(lambda store: consumer_groups.read_offsets(store, "dead")) == {}
    assert delete("--group", "dead") == "Deleted all consumer group information for group 'dead' in zookeeper.\n"
    assert "dead" not in call(consumer_groups.group_ids)
    everywhere = (
        "Deleted consumer group information for all inactive consumer groups for topic 'clicks' in zookeeper.\n"
    )
    assert delete("--topic", "clicks") == everywhere
    assert call(consumer_groups.group_ids) == ["gone", "idle", "two"]


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["--describe"], 'Missing required argument "[group]"'),
        (["--list", "--bootstrap-server", "x:1"], "Option [bootstrap-server] is not valid with [zookeeper]."),
        (["--delete"], "Option [delete] either takes [group], [topic], or both"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(["--zookeeper", "unused:1", *arguments]) == 1
    assert capsys.readouterr().err.startswith(refusal)


def test_what_a_group_says_of_itself_is_read(call: Any) -> None:
    group = call(lambda store: consumer_groups.read_group(store, "two"))
    assert {member: dict(each.threads) for member, each in group.members.items()} == {
        MEMBER: {"orders": 1},
        "two_b": {"orders": 1, "clicks": 1},
    }
    assert (list(group.owned_topics), group.owners) == (["orders"], {("orders", 2): MEMBER})
    offsets = call(lambda store: consumer_groups.read_offsets(store, "two"))
    assert offsets == {("orders", 0): 7, ("orders", 1): 7, ("orders", 2): 8}
    with pytest.raises(NoNodeError):
        call(lambda store: consumer_groups.read_group(store, "gone"))
    with pytest.raises(MalformedZnodeError):
        call(lambda store: consumer_groups.read_offsets(store, "odd"))


@pytest.mark.parametrize("content", [b"", b"[]", b'{"subscription":7}', b'{"subscription":{"t":"x"}}'])
def test_a_member_that_cannot_be_read(content: bytes, call: Any) -> None:
    async def spoil(store: Store) -> None:
        await store.write(f"/consumers/two/ids/{MEMBER}", content)

    call(spoil)
    with pytest.raises(MalformedZnodeError):
        call(lambda store: consumer_groups.read_group(store, "two"))
