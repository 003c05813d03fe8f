"""Brokers that lie, babble or refuse for ever: clients name the error or try again with pauses, and forget no record in silence.

The cluster answers at once and time is virtual, so a client that asks without pause asks for ever: `Always` stops answering then.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from crc32c import crc32c

from kafkalite.client.admin.admin import Admin
from kafkalite.client.admin.topics import NewTopic
from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.errors import ClientError, ClientTimeoutError
from kafkalite.client.group.consumer_protocol import Assignment, encode_assignment
from kafkalite.client.producer.producer import Producer
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.compression import Codec
from kafkalite.protocol.records import CONTROL, TRANSACTIONAL, NewRecord, assemble_batch, build_batch, encode_record
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import HANG, FakeCluster

T0 = TopicPartition("t", 0)
SECONDS = 10
REQUESTS_A_SECOND = 60
"""Of all kinds together. Without a pause it would be thousands."""


class Always(deque[Any]):
    """A script that answers every request of an API with `answer(broker id, request)`, or with `answer` itself."""

    def __init__(self, answer: Any, limit: int = 3000) -> None:
        super().__init__([answer if callable(answer) else lambda *_: answer])
        self.limit, self.count = limit, 0

    def popleft(self) -> Any:
        self.count += 1
        return self[0] if self.count <= self.limit else HANG


def run(
    scenario: Callable[[FakeCluster], Coroutine[Any, Any, None]], cluster: FakeCluster | None = None
) -> FakeCluster:
    made = cluster or FakeCluster({"t": 1}, brokers=1)
    for key in ApiKey:
        made.script[key] = made.script[key] or Always(None)

    async def in_time() -> None:
        async with asyncio.timeout(600):
            await scenario(made)

    virtual_time.run(in_time())
    return made


def filled(*batches: Any, **facts: Any) -> FakeCluster:
    cluster = FakeCluster({"t": 1}, brokers=1)
    for each in batches:
        cluster.append(T0, each)
    return cluster


def consumer(cluster: FakeCluster, **options: Any) -> Consumer:
    return Consumer(
        bootstrap_servers="fake:9001",
        opener=cluster.open,
        chance=lambda: 0.5,
        **{"auto_offset_reset": "earliest", "fetch_max_wait_ms": 500, **options},
    )


def partition_data(**facts: Any) -> Any:
    m = messages.fetch_response
    given = m.PartitionData(partition_index=facts.pop("partition_index", 0), **facts)
    topic = m.FetchableTopicResponse(topic="t", topic_id=bytes(15) + b"\1", partitions=[given])
    return m.FetchResponse(responses=[topic])


def offsets_answer(*partitions: Any) -> Any:
    m = messages.list_offsets_response
    return m.ListOffsetsResponse(topics=[m.ListOffsetsTopicResponse(name="t", partitions=list(partitions))])


def offset_of(**facts: Any) -> Any:
    return messages.list_offsets_response.ListOffsetsPartitionResponse(partition_index=0, **facts)


def metadata_answer(leader: int = 1, brokers: int = 1, **facts: Any) -> Any:
    m = messages.metadata_response
    partition = m.MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=facts.pop("epoch", 0))
    return m.MetadataResponse(
        cluster_id=facts.pop("cluster_id", "fake"),
        brokers=[m.MetadataResponseBroker(node_id=n, host="fake", port=9000 + n) for n in range(1, brokers + 1)],
        topics=[m.MetadataResponseTopic(name="t", topic_id=bytes(15) + b"\1", partitions=[partition])],
    )


FETCH, LIST, METADATA = ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA
ENDLESS: dict[str, dict[ApiKey, Any]] = {
    "nothing, and at once": {FETCH: partition_data()},
    "no partitions at all": {FETCH: messages.fetch_response.FetchResponse()},
    "another partition than asked": {FETCH: partition_data(partition_index=7)},
    "no session": {FETCH: messages.fetch_response.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)},
    "out of range": {FETCH: partition_data(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)},
    "not the leader": {FETCH: partition_data(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)},
    "the fetch ends the connection": {FETCH: lambda *_: ConnectionError("gone")},
    "offsets of nothing": {LIST: messages.list_offsets_response.ListOffsetsResponse()},
    "no offset, and no end": {LIST: offsets_answer(offset_of(offset=-1))},
    "offsets beyond everything": {
        LIST: offsets_answer(offset_of(offset=2**63 - 1)),
        FETCH: partition_data(error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
    },
    "a leader that there is not": {METADATA: metadata_answer(leader=99)},
    "no leader": {METADATA: metadata_answer(leader=-1)},
    "brokers that cannot be reached": {METADATA: metadata_answer(leader=3, brokers=40)},
    "no brokers any more": {METADATA: None},
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_consumer_pauses_between_questions_that_lead_nowhere(kind: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            for key, answer in ENDLESS[kind].items():
                if kind == "no brokers any more":
                    cluster.unreachable.add(1)
                    cluster.connections[0].close()
                cluster.script[key] = Always(answer)
            before = len(cluster.requests)
            target.assign([T0])
            assert await target.getmany(timeout_ms=SECONDS * 1000) == {}
            assert len(cluster.requests) - before < SECONDS * REQUESTS_A_SECOND

    run(scenario)


def raw_batch(body: bytes, count: int, **facts: Any) -> bytearray:
    fields = {
        "last_offset_delta": count - 1,
        "base_timestamp": 0,
        "max_timestamp": 0,
        "base_offset": 0,
        "leader_epoch": 0,
        "attributes": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        **facts,
    }
    return assemble_batch(body, records_count=count, **fields)


def records(*deltas: int) -> bytes:
    return b"".join(encode_record(0, delta, b"k", b"%d" % delta) for delta in deltas)


BOMB = build_batch([NewRecord(None, bytes(120_000_000))], codec=Codec.ZSTD)
BAD_MARKER = raw_batch(b"", 1, attributes=CONTROL | TRANSACTIONAL, producer_id=1)
NAMED: dict[str, tuple[Any, str]] = {
    "a code that nobody knows": ({"error_code": 999}, "unknown error code 999"),
    "bytes that are no batch": ({"records": b"x" * 100}, "CORRUPT_MESSAGE|no batch"),
    "a part of a batch": ({"records": bytes(build_batch([NewRecord(b"k", b"v")])[:40])}, "does not fit"),
    "a batch below the offset asked for": ({"records": "below"}, "does not fit"),
    "a batch that grows without bound": ({"records": bytes(BOMB)}, "limit of 104857600"),
    "an offset behind the last": ({"records": bytes(raw_batch(records(0), 1, base_offset=2**63 - 1))}, "ends at"),
    "an end before its beginning": (
        {"records": bytes(raw_batch(records(0), 1, base_offset=50, last_offset_delta=-3))},
        "has offsets from 50",
    ),
    "fewer records than it counts": ({"records": bytes(raw_batch(records(0), 5))}, "cannot be read"),
    "a negative count": ({"records": bytes(raw_batch(records(0), -1, last_offset_delta=3))}, "cannot be read"),
    "a wrong CRC": ({"records": bytes(raw_batch(records(0), 1)[:-1] + b"x")}, "CRC"),
    "a marker that is none": ({"records": bytes(BAD_MARKER)}, "no marker"),
}


@pytest.mark.parametrize("kind", NAMED)
def test_what_cannot_be_read_is_named(kind: str) -> None:
    facts, words = NAMED[kind]
    if facts.get("records") == "below":
        facts = {"records": bytes(build_batch([NewRecord(b"k", b"v")]))}

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            cluster.script[FETCH] = Always(partition_data(high_watermark=10, **facts))
            target.assign([T0])
            if "below" in kind:
                target.seek(T0, 7)
            with pytest.raises(ClientError, match=words):
                while await target.getmany(timeout_ms=5000):
                    pass
            with pytest.raises(ClientError, match=words):  # and not skipped: it stays until somebody seeks
                await target.getmany(timeout_ms=5000)
            assert cluster.script[FETCH].count < 20

    run(scenario, filled())


def test_records_before_a_marker_that_cannot_be_read_are_not_lost() -> None:
    good = build_batch([NewRecord(b"k", b"v")])
    bad = raw_batch(b"", 1, attributes=CONTROL | TRANSACTIONAL, producer_id=1)

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            found = await target.getmany(timeout_ms=1000)
            assert [each.offset for each in found[T0]] == [0]
            with pytest.raises(ClientError, match="no marker"):
                await target.getmany(timeout_ms=1000)

    run(scenario, filled(good, bad))


@pytest.mark.parametrize("deltas", [(0, 5, 2, 1), (0, 0, 0, 0), (3, 2, 1, 0), (0, -900, 7, 1_000_000)])
def test_offsets_in_no_order_move_the_position_neither_back_nor_beyond_the_batch(deltas: tuple[int, ...]) -> None:
    """Apache Kafka stores batches with any offset deltas."""

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, max_poll_records=1) as target:
            target.assign([T0])
            position, seen = 0, 0
            while position < 8:
                found = await target.getmany(timeout_ms=1000)
                seen += sum(map(len, found.values()))
                now = await target.position(T0)
                assert position <= now <= 8
                position = now
            assert seen <= 8

    batch = raw_batch(records(*deltas), len(deltas))
    run(scenario, filled(build_batch([NewRecord(b"k", b"v")] * 4), batch))


def test_batches_in_no_order_do_not_move_the_position_back() -> None:
    one = [build_batch([NewRecord(b"k", b"v")] * 10, base_offset=offset) for offset in (20, 0, 25, 10)]

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            cluster.script[FETCH] = deque(
                [lambda *_: partition_data(records=b"".join(map(bytes, one)), high_watermark=50)]
            )
            target.assign([T0])
            position = 0
            for _ in range(6):
                await target.getmany(timeout_ms=100, max_records=3)
                now = await target.position(T0)
                assert now >= position
                position = now

    run(scenario)


def test_metadata_of_what_nobody_asked_for_is_not_kept() -> None:
    def more(_: int, request: Any) -> Any:
        answer = metadata_answer()
        m = messages.metadata_response
        answer.topics += [m.MetadataResponseTopic(name=f"other{len(names)}-{n}") for n in range(100)]
        names.append(request)
        return answer

    names: list[Any] = []

    async def scenario(cluster: FakeCluster) -> None:
        cluster.script[METADATA] = Always(more)
        async with consumer(cluster, metadata_max_age_ms=100) as target:
            target.assign([T0])
            await target.getmany(timeout_ms=3000)
            assert len(names) > 5 and set(target._cluster.view.topics) == {"t"}

    run(scenario)


def test_connections_to_brokers_that_metadata_forgot_are_closed() -> None:
    moving = [metadata_answer() for _ in range(30)]
    for number, each in enumerate(moving):
        each.brokers[0].port = 9001 + number % 3
        each.brokers[0].host = f"fake{number}"

    async def scenario(cluster: FakeCluster) -> None:
        cluster.brokers = {n: ("fake", 9000 + n) for n in range(1, 4)}
        cluster.script[METADATA] = deque(lambda *_, each=each: each for each in moving)
        async with consumer(cluster, metadata_max_age_ms=100, fetch_max_wait_ms=50) as target:
            target.assign([T0])
            await target.getmany(timeout_ms=8000)
            assert not any(map(callable, cluster.script[METADATA]))
            assert len(target._cluster._links) < 5
            assert sum(not each.closed for each in cluster.connections) < 5

    run(scenario)


def test_a_cluster_that_becomes_another_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    ids = iter("abcdefghijklmnopqrstuvwxyz" * 10)

    async def scenario(cluster: FakeCluster) -> None:
        cluster.script[METADATA] = Always(lambda *_: metadata_answer(cluster_id=next(ids)))
        async with consumer(cluster, metadata_max_age_ms=100) as target:
            target.assign([T0])
            await target.getmany(timeout_ms=3000)

    run(scenario)
    assert sum("are of cluster" in each.message for each in caplog.records) == 1


# groups


def group_cluster(**answers: Any) -> FakeCluster:
    cluster = FakeCluster({"t": 1, "other": 1}, brokers=1)
    m = messages
    join = m.join_group_response.JoinGroupResponse
    coordinator = m.find_coordinator_response.Coordinator(key="g", node_id=1, host="fake", port=9001)
    mine = encode_assignment(Assignment((T0,)))
    normal = {
        "find_coordinator": m.find_coordinator_response.FindCoordinatorResponse(coordinators=[coordinator]),
        "join_group": join(generation_id=1, protocol_name="range", leader="other", member_id="m1"),
        "sync_group": m.sync_group_response.SyncGroupResponse(assignment=mine),
        "heartbeat": m.heartbeat_response.HeartbeatResponse(),
        "leave_group": m.leave_group_response.LeaveGroupResponse(),
        "offset_fetch": _committed,
        "offset_commit": m.offset_commit_response.OffsetCommitResponse(),
        **answers,
    }
    for name, answer in normal.items():
        cluster.script[ApiKey[name.upper()]] = Always(answer)
    return cluster


def _committed(_: int, request: Any) -> Any:
    m = messages.offset_fetch_response
    topics = [
        m.OffsetFetchResponseTopics(
            name=topic.name,
            partitions=[
                m.OffsetFetchResponsePartitions(partition_index=n, committed_offset=-1) for n in topic.partition_indexes
            ],
        )
        for topic in request.groups[0].topics
    ]
    return m.OffsetFetchResponse(groups=[m.OffsetFetchResponseGroup(group_id="g", topics=topics)])


def joined(**facts: Any) -> Any:
    given = {"generation_id": 1, "protocol_name": "range", "leader": "other", "member_id": "m1", **facts}
    return messages.join_group_response.JoinGroupResponse(**given)


def synced(**facts: Any) -> Any:
    return messages.sync_group_response.SyncGroupResponse(**facts)


def nowhere(**facts: Any) -> Any:
    m = messages.find_coordinator_response
    return m.FindCoordinatorResponse(
        coordinators=[m.Coordinator(**{"key": "g", "node_id": 9, "host": "nowhere", "port": 1, **facts})]
    )


RETRIED: dict[str, dict[str, Any]] = {
    "a coordinator nowhere": {"find_coordinator": nowhere()},
    "no coordinator": {"find_coordinator": messages.find_coordinator_response.FindCoordinatorResponse()},
    "a member nobody knows": {"join_group": joined(error_code=ErrorCode.UNKNOWN_MEMBER_ID)},
    "an id first, for ever": {"join_group": joined(error_code=ErrorCode.MEMBER_ID_REQUIRED)},
    "another generation": {"join_group": joined(error_code=ErrorCode.ILLEGAL_GENERATION)},
    "rebalancing": {"join_group": joined(error_code=ErrorCode.REBALANCE_IN_PROGRESS)},
    "rebalancing later": {"sync_group": synced(error_code=ErrorCode.REBALANCE_IN_PROGRESS)},
    "unknown later": {"sync_group": synced(error_code=ErrorCode.UNKNOWN_MEMBER_ID)},
    "loading": {"join_group": joined(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)},
    "moved": {"join_group": joined(error_code=ErrorCode.NOT_COORDINATOR)},
    "no committed offsets of the group": {"offset_fetch": messages.offset_fetch_response.OffsetFetchResponse()},
    "committed offsets of no partition": {
        "offset_fetch": messages.offset_fetch_response.OffsetFetchResponse(
            groups=[messages.offset_fetch_response.OffsetFetchResponseGroup(group_id="g")]
        )
    },
    "heartbeats that say rebalance": {
        "heartbeat": messages.heartbeat_response.HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    },
    "heartbeats that say unknown": {
        "heartbeat": messages.heartbeat_response.HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    },
}


@pytest.mark.parametrize("kind", RETRIED)
def test_a_member_pauses_between_questions_that_lead_nowhere(kind: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            target.subscribe(["t"])
            for _ in range(SECONDS):
                assert await target.getmany(timeout_ms=1000) == {}
            assert len(cluster.requests) < SECONDS * REQUESTS_A_SECOND

    run(scenario, group_cluster(**RETRIED[kind]))


ENDED: dict[str, tuple[dict[str, Any], str]] = {
    "an assignor that nobody offered": ({"join_group": joined(protocol_name="chosen")}, "chose chosen"),
    "an assignment that is none": ({"sync_group": synced(assignment=b"\0\1\0\0\0\5abc")}, "assignment cannot be read"),
    "a million topics in ten bytes": (
        {"sync_group": synced(assignment=b"\0\1\0\x0f\xff\xff" + bytes(4))},
        "cannot be read",
    ),
    "a code that nobody knows": ({"join_group": joined(error_code=999)}, "999"),
    "subscriptions that are none": (
        {
            "join_group": joined(
                leader="m1",
                members=[
                    messages.join_group_response.JoinGroupResponseMember(member_id="m1", metadata=b"\0\3\0\0\0\7x")
                ],
            )
        },
        "subscription",
    ),
}


@pytest.mark.parametrize("kind", ENDED)
def test_a_group_that_cannot_be_understood_is_named(kind: str) -> None:
    answers, words = ENDED[kind]

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            target.subscribe(["t"])
            with pytest.raises(ClientError, match=words):
                await target.getmany(timeout_ms=60_000)
            with pytest.raises(ClientError, match=words):
                await target.getmany(timeout_ms=60_000)

    run(scenario, group_cluster(**answers))


def test_only_topics_that_were_subscribed_to_are_read() -> None:
    given = encode_assignment(Assignment((TopicPartition("other", 0), T0, T0, TopicPartition("t", -4))))

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            target.subscribe(["t"])
            await target.getmany(timeout_ms=2000)
            assert target.assignment() == {T0}

    run(scenario, group_cluster(sync_group=synced(assignment=given)))


class Broken:
    """An assignor of the program that fails where `at` says."""

    name, cooperative = "broken", False

    def __init__(self, at: str) -> None:
        self.at = at

    def user_data(self, *_: Any) -> bytes | None:
        if self.at == "user_data":
            raise RuntimeError("mistake")
        return None

    def assign(self, counts: Any, members: Any) -> Any:
        if self.at == "assign":
            raise RuntimeError("mistake")
        return {member: [("nothing", "right")] for member in members}


@pytest.mark.parametrize("at", ["assign", "user_data", "result"])
@pytest.mark.parametrize("iterate", [False, True])
def test_an_assignor_that_raises_is_heard_of(at: str, iterate: bool) -> None:
    """It used to end the membership's task in silence, and the program waited for ever."""

    def lead(_: int, request: Any) -> Any:
        m = messages.join_group_response
        member = m.JoinGroupResponseMember(member_id="m1", metadata=request.protocols[0].metadata)
        return joined(leader="m1", protocol_name="broken", members=[member])

    async def scenario(cluster: FakeCluster) -> None:
        options = {"group_id": "g", "partition_assignment_strategy": [Broken(at)], "enable_auto_commit": False}
        async with consumer(cluster, **options) as target:
            target.subscribe(["t"])
            with pytest.raises(ClientError, match="assignor failed") as failed:
                if iterate:
                    await anext(target)
                else:
                    await target.getmany(timeout_ms=60_000)
            if at != "result":
                assert isinstance(failed.value.__cause__, RuntimeError)

    run(scenario, group_cluster(join_group=lead))


def test_a_commit_whose_answer_lacks_a_partition_is_no_success() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", default_api_timeout_ms=3000) as target:
            target.assign([T0])
            with pytest.raises(ClientError, match="lacks t-0"):
                await target.commit({T0: 5})
            assert cluster.script[ApiKey.OFFSET_COMMIT].count < 3 * REQUESTS_A_SECOND
            await target.close(commit=False)

    run(scenario, group_cluster())


# producers


def producer(cluster: FakeCluster, **options: Any) -> Producer:
    return Producer(
        bootstrap_servers="fake:9001",
        opener=cluster.open,
        chance=lambda: 0.5,
        **{"delivery_timeout_ms": SECONDS * 1000, "request_timeout_ms": 2000, **options},
    )


def produced(**facts: Any) -> Any:
    m = messages.produce_response
    answer = m.PartitionProduceResponse(**{"index": 0, "base_offset": -1, **facts})
    return m.ProduceResponse(
        responses=[m.TopicProduceResponse(name=facts.pop("topic", "t"), partition_responses=[answer])]
    )


def identity(**facts: Any) -> Any:
    return messages.init_producer_id_response.InitProducerIdResponse(**facts)


UNDELIVERED: dict[str, dict[ApiKey, Any]] = {
    "not the leader": {ApiKey.PRODUCE: produced(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)},
    "not enough replicas": {ApiKey.PRODUCE: produced(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)},
    "out of order": {ApiKey.PRODUCE: produced(error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)},
    "unknown producer": {ApiKey.PRODUCE: produced(error_code=ErrorCode.UNKNOWN_PRODUCER_ID)},
    "too large": {ApiKey.PRODUCE: produced(error_code=ErrorCode.MESSAGE_TOO_LARGE)},
    "another partition": {ApiKey.PRODUCE: produced(index=5)},
    "nothing": {ApiKey.PRODUCE: messages.produce_response.ProduceResponse()},
    "a code that nobody knows": {ApiKey.PRODUCE: produced(error_code=999)},
    "no answer": {ApiKey.PRODUCE: lambda *_: HANG},
    "the connection ends": {ApiKey.PRODUCE: lambda *_: ConnectionError("gone")},
    "no producer id": {ApiKey.INIT_PRODUCER_ID: identity(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)},
    "a producer id that is none": {ApiKey.INIT_PRODUCER_ID: identity(producer_id=-1)},
    "a leader that there is not": {METADATA: metadata_answer(leader=99)},
}


@pytest.mark.parametrize("kind", UNDELIVERED)
def test_records_that_are_not_taken_fail_in_time_and_without_haste(kind: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        for key, answer in UNDELIVERED[kind].items():
            cluster.script[key] = Always(answer)
        async with producer(cluster) as target:
            began_s = asyncio.get_running_loop().time()
            sent = [await target.send("t", b"%d" % n, partition=0) for n in range(8)]
            for each in sent:
                with pytest.raises(ClientError):
                    await each
            assert asyncio.get_running_loop().time() - began_s <= SECONDS + 3
            assert target.statistics()["failed_records"] == 8
            assert len(cluster.requests) < SECONDS * REQUESTS_A_SECOND

    run(scenario)


def test_an_offset_below_zero_is_no_offset() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.script[ApiKey.PRODUCE] = Always(produced(base_offset=-7))
        async with producer(cluster) as target:
            delivery = await target.send("t", b"v", partition=0)
            assert (await delivery).offset == -1

    run(scenario)


def test_bytes_in_flight_are_never_written_again() -> None:
    """A buffer that is used anew while a request waits would bring its records to another topic (CVE-2026-35554)."""
    kept: list[tuple[Any, bytes, str]] = []

    def keep(_: int, request: Any) -> Any:
        return HANG if len(kept) < 30 else None

    async def scenario(cluster: FakeCluster) -> None:
        cluster.script[ApiKey.PRODUCE] = Always(keep)
        options = {"delivery_timeout_ms": 900, "request_timeout_ms": 300, "batch_size": 2000, "buffer_memory": 20_000}
        async with producer(cluster, **options) as target:
            message = target._sender._message

            def noted(batches: Any) -> Any:
                kept.extend((each.encoded, bytes(each.encoded), each.topic_partition.topic) for each in batches)
                return message(batches)

            target._sender._message = noted  # type: ignore[method-assign]
            for number in range(60):
                for topic in ("t", "u"):
                    try:
                        await target.send(topic, topic.encode() * 500 + b"%d" % number, partition=0)
                    except ClientTimeoutError:
                        pass
                await asyncio.sleep(0.05)
            await target.flush()

    run(scenario, FakeCluster({"t": 1, "u": 1}, brokers=1))
    assert len(kept) > 60
    for buffer, as_sent, topic in kept:
        assert bytes(buffer) == as_sent and topic.encode() * 500 in as_sent
        assert struct.unpack_from(">I", buffer, 17)[0] == crc32c(memoryview(buffer)[21:])


# administration


@pytest.mark.parametrize("call", ["create", "delete", "describe", "configs"])
def test_answers_that_lack_what_was_asked_for_are_errors(call: str) -> None:
    m = messages

    async def scenario(cluster: FakeCluster) -> None:
        cluster.script[ApiKey.CREATE_TOPICS] = Always(m.create_topics_response.CreateTopicsResponse())
        cluster.script[ApiKey.DELETE_TOPICS] = Always(m.delete_topics_response.DeleteTopicsResponse())
        cluster.script[ApiKey.DESCRIBE_CONFIGS] = Always(m.describe_configs_response.DescribeConfigsResponse())
        async with Admin(bootstrap_servers="fake:9001", opener=cluster.open, default_api_timeout_ms=3000) as admin:
            empty = metadata_answer()
            empty.topics = []
            cluster.script[METADATA] = Always(empty)
            calls = {
                "create": lambda: admin.create_topics([NewTopic("n", 1)]),
                "delete": lambda: admin.delete_topics(["t"]),
                "describe": lambda: admin.describe_topics(["t"]),
                "configs": lambda: admin.describe_configs("topic", "t"),
            }
            before = len(cluster.requests)
            with pytest.raises(ClientError):
                await calls[call]()
            assert len(cluster.requests) - before < 3 * REQUESTS_A_SECOND

    run(scenario)
