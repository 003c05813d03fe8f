"""What our client must do against any broker: scenarios that `test_our_client` runs against ours and tests/peers against Apache Kafka."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kafkalite.client import Admin, Consumer, NewTopic, Producer, RebalanceListener, SyncConsumer, SyncProducer
from kafkalite.client.errors import ClientError, CommitFailedError
from kafkalite.client.group.assignors import ASSIGNORS
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

TIMEOUT_S = 60
CODECS = (None, "gzip", "snappy", "lz4", "zstd")
TopicMaker = Callable[..., str]


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await coroutine

    asyncio.run(in_time())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; `run` has the deadline."""
    while not condition():
        await asyncio.sleep(0.02)


class Member:
    """A member of a group that reads in a task of its own and notes what it saw."""

    def __init__(self, servers: str, group: str, topics: list[str], **options: Any) -> None:
        defaults: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 30_000,  # longer than a machine with too much to do stands still
            "heartbeat_interval_ms": 200,
            "auto_commit_interval_ms": 200,
            "metadata_max_age_ms": 500,
        }
        pattern = options.pop("pattern", None)
        self.consumer = Consumer(bootstrap_servers=servers, group_id=group, **{**defaults, **options})
        self.values: list[bytes] = []
        self.calls: list[tuple[str, set[TopicPartition]]] = []
        self.consumer.subscribe(topics, pattern=pattern, listener=_Listener(self.calls))
        self.task: asyncio.Task[None] | None = None

    @property
    def assignment(self) -> set[TopicPartition]:
        return self.consumer.assignment()

    async def start(self) -> None:
        await self.consumer.connect()
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            for records in (await self.consumer.getmany(timeout_ms=200)).values():
                self.values += [record.value for record in records]

    async def stop(self, **options: Any) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.consumer.close(**options)


class _Listener(RebalanceListener):
    def __init__(self, calls: list[tuple[str, set[TopicPartition]]]) -> None:
        self._calls = calls

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._calls.append(("assigned", assigned))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._calls.append(("revoked", revoked))


async def send(servers: str, topic: str, values: list[bytes]) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            await producer.send(topic, value)


def records_come_back_whole(servers: str, make_topic: TopicMaker) -> None:
    async def scenario() -> None:
        topic = make_topic(1)
        sent = []
        for codec in CODECS:
            async with Producer(bootstrap_servers=servers, compression_type=codec, linger_ms=5) as producer:
                headers = [("a", b"1"), ("a", None), ("ü", b"")]
                for number in range(50):
                    value = b"%d" % number * 20
                    await producer.send(topic, value, key=b"k", timestamp_ms=1000 + number, headers=headers)
                    sent.append((b"k", value, 1000 + number, headers))
        async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            seen = []
            async for record in consumer:
                seen.append((record.key, record.value, record.timestamp, list(record.headers)))
                if len(seen) == len(sent):
                    break
            assert seen == sent
            rows = [
                row
                async for batch in consumer.read_range((topic, 0), 10, 240)
                for row in batch.select(["offset", "value"]).to_pylist()
            ]
            assert [row["offset"] for row in rows] == list(range(10, 240))
            assert [row["value"] for row in rows] == [each[1] for each in sent[10:240]]

    pytest.importorskip("pyarrow")
    run(scenario())


def the_synchronous_faces_do_the_same(servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic(2)
    with SyncProducer(bootstrap_servers=servers, value_serializer="json") as producer:
        sent = [producer.send(topic, {"n": number}, partition=number % 2) for number in range(40)]
        assert sorted(each.result(20).offset for each in sent) == sorted([*range(20), *range(20)])
    with SyncConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=f"{topic}-sync",
        auto_offset_reset="earliest",
        value_deserializer="json",
    ) as consumer:
        seen = []
        for record in consumer:
            seen.append(record.value["n"])
            if len(seen) == 40:
                break
        assert sorted(seen) == list(range(40))
        consumer.commit()
        assert [consumer.committed(TopicPartition(topic, number)) for number in (0, 1)] == [20, 20]
        assert consumer.lag(TopicPartition(topic, 0)) == 0


def a_group_shares_and_hands_over(servers: str, make_topic: TopicMaker, strategy: str) -> None:
    async def scenario() -> None:
        topic = make_topic(6)
        everything = {TopicPartition(topic, number) for number in range(6)}
        await send(servers, topic, [b"%d" % number for number in range(300)])
        options = {"partition_assignment_strategy": strategy}
        first, second = (Member(servers, f"{topic}-g", [topic], **options) for _ in range(2))
        await first.start()
        await until(lambda: len(first.values) == 300)
        await second.start()
        await until(lambda: len(first.assignment) == 3 and len(second.assignment) == 3)
        assert first.assignment | second.assignment == everything
        await send(servers, topic, [b"%d" % number for number in range(300, 600)])
        await until(lambda: len(set(first.values + second.values)) == 600)
        await second.stop()
        await until(lambda: first.assignment == everything)
        await send(servers, topic, [b"%d" % number for number in range(600, 700)])
        await until(lambda: len(set(first.values + second.values)) == 700)
        await first.stop()
        assert max(Counter(first.values + second.values).values()) == 1, "all changes of hands were orderly"
        if strategy == "cooperative-sticky":
            given_up = [partitions for kind, partitions in first.calls[:-1] if kind == "revoked"]
            assert given_up and all(len(partitions) == 3 for partitions in given_up), first.calls

    run(scenario())


def a_static_member_comes_back_without_a_rebalance(servers: str, make_topic: TopicMaker) -> None:
    async def scenario() -> None:
        topic = make_topic(4)
        group = f"{topic}-static"
        stays = Member(servers, group, [topic], group_instance_id="stays")
        goes = Member(servers, group, [topic], group_instance_id="goes")
        await stays.start()
        await goes.start()
        await until(lambda: len(stays.assignment) == 2 and len(goes.assignment) == 2)
        await until(
            lambda: goes.consumer.assignment() | stays.assignment == {TopicPartition(topic, n) for n in range(4)}
        )
        had, calls = goes.assignment, len(stays.calls)
        await goes.stop()
        again = Member(servers, group, [topic], group_instance_id="goes")
        await again.start()
        await until(lambda: again.assignment == had)
        assert len(stays.calls) == calls, "nobody else noticed"
        thief = Member(servers, group, [topic], group_instance_id="goes")
        await thief.start()
        await until(lambda: thief.assignment == had)
        with pytest.raises(ClientError) as raised:
            await asyncio.wait_for(asyncio.shield(again.task or asyncio.sleep(0)), 20)
        assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID
        for member in (stays, again, thief):
            await member.stop()

    run(scenario())


def a_static_leader_that_comes_back_assigns_what_came_meanwhile(servers: str, make_topic: TopicMaker) -> None:
    async def scenario() -> None:
        topic = make_topic(1)
        group = f"{topic}-leader"
        member = Member(servers, group, [topic], group_instance_id="leads")
        await member.start()
        await until(lambda: len(member.assignment) == 1)
        await member.stop()
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.create_partitions({topic: 2})
        again = Member(servers, group, [topic], group_instance_id="leads")
        await again.start()
        await until(lambda: again.assignment == {TopicPartition(topic, n) for n in range(2)})
        await again.stop()

    run(scenario())


def a_pattern_finds_new_topics(servers: str, make_topic: TopicMaker) -> None:
    async def scenario() -> None:
        topic = make_topic(1)
        member = Member(servers, f"{topic}-p", [], pattern=f"{topic}.*")
        await member.start()
        await until(lambda: member.assignment == {TopicPartition(topic, 0)})
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.create_topics([NewTopic(f"{topic}-more", 2, 1)])
        await until(lambda: len(member.assignment) == 3)
        await member.stop()

    run(scenario())


def commits_are_kept(servers: str, make_topic: TopicMaker) -> None:
    async def scenario() -> None:
        topic = make_topic(1)
        place = TopicPartition(topic, 0)
        await send(servers, topic, [b"%d" % number for number in range(10)])
        options: dict[str, Any] = {
            "group_id": f"{topic}-c",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        async with Consumer(bootstrap_servers=servers, **options) as consumer:
            consumer.assign([place])
            assert await consumer.committed(place) is None
            assert [(await consumer.getone()).offset for _ in range(4)] == [0, 1, 2, 3]
            await consumer.commit()
            assert await consumer.committed(place) == 4
            await consumer.commit({place: (6, "note")})
            await consumer.commit_async({place: (6, "note")})
        async with Consumer(bootstrap_servers=servers, **options) as consumer:
            consumer.assign([place])
            assert (await consumer.getone()).offset == 6
            found = (await consumer.committed_offsets([place]))[place]
            assert found is not None and (found.offset, found.metadata) == (6, "note")
        member = Member(servers, f"{topic}-c", [topic])
        await member.start()
        await until(lambda: member.values == [b"6", b"7", b"8", b"9"])
        async with Consumer(bootstrap_servers=servers, **options) as stranger:
            with pytest.raises(CommitFailedError):
                await stranger.commit({place: 1})
        await member.stop()

    run(scenario())


def a_member_that_does_not_poll_is_replaced(servers: str, make_topic: TopicMaker) -> None:
    async def scenario() -> None:
        topic = make_topic(2)
        lazy = Member(servers, f"{topic}-lazy", [topic], max_poll_interval_ms=1500)
        await lazy.consumer.connect()
        await lazy.consumer.getmany(timeout_ms=3000)
        await until(lambda: len(lazy.assignment) == 2)
        other = Member(servers, f"{topic}-lazy", [topic], max_poll_interval_ms=1500)
        await other.start()
        await until(lambda: len(other.assignment) == 2)
        assert lazy.assignment == set()
        lazy.task = asyncio.create_task(lazy._read())
        await until(lambda: len(other.assignment) == 1 and len(lazy.assignment) == 1)
        await lazy.stop()
        await other.stop()

    run(scenario())


def what_is_wrong_is_said(servers: str, make_topic: TopicMaker) -> None:
    async def scenario() -> None:
        topic = make_topic(1, config={"max.message.bytes": "2000"})
        async with Producer(bootstrap_servers=servers, allow_auto_create_topics=False, max_block_ms=3000) as producer:
            with pytest.raises(ClientError) as raised:
                await producer.send("no-such-topic", b"x")
            assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(ClientError) as raised:
                await producer.send_and_wait(topic, bytes(5000))
            assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
            with pytest.raises(ClientError) as raised:
                await producer.send(topic, bytes(2_000_000))
            assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        async with Producer(bootstrap_servers=servers, linger_ms=50) as producer:
            sent = [await producer.send(topic, bytes(500)) for _ in range(20)]
            assert [(await each).offset for each in sent] == list(range(20)), "a large batch goes in parts"

    run(scenario())


SCENARIOS: dict[str, Callable[[str, TopicMaker], None]] = {
    each.__name__: each
    for each in (
        records_come_back_whole,
        the_synchronous_faces_do_the_same,
        a_static_member_comes_back_without_a_rebalance,
        a_static_leader_that_comes_back_assigns_what_came_meanwhile,
        a_pattern_finds_new_topics,
        commits_are_kept,
        a_member_that_does_not_poll_is_replaced,
        what_is_wrong_is_said,
    )
}
STRATEGIES = tuple(ASSIGNORS)
