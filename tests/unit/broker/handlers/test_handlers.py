"""Handlers with parts in memory: what they decide, and how a client reads it. No socket, no file, no ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkalite.broker.handlers import SERVED
from kafkalite.broker.settings.quotas import CONTROLLER_MUTATION_RATE, QuotaEntity
from kafkalite.controller.requests import Charge, CreatedTopic, free
from kafkalite.errors import ErrorCode, KafkaError, ProtocolViolation
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TRANSACTIONS_TOPIC, TopicPartition
from tests.unit.broker.memory_parts import GROUPS_TOPIC, MemoryParts, context_of, know, leader

p, f = messages.produce_request, messages.fetch_request


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario()

    virtual_time.run(run())


def produce(*indexes: int, acks: int = 1, size: int = 3, timeout_ms: int = 1000, topic: str = "t") -> Any:
    data = [p.PartitionProduceData(index=index, records=bytes(size)) for index in indexes or (0,)]
    topics = [p.TopicProduceData(name=topic, partition_data=data)]
    return p.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def produced(reply: Any) -> list[tuple[int, int]]:
    """(error code, base offset) of each partition."""
    return [(each.error_code, each.base_offset) for topic in reply.responses for each in topic.partition_responses]


def test_acks_1_is_answered_after_the_append() -> None:
    async def scenario() -> None:
        parts = MemoryParts(leader(end=5), leader(index=1, isr=(1, 2)))
        assert produced(await parts.ask(produce(0, 1), 9)) == [(0, 5), (0, 0)]
        assert parts.traffic.topics["t"].bytes_in == 6

    play(scenario)


def test_acks_all_is_answered_when_the_isr_has_the_records() -> None:
    async def scenario() -> None:
        partition = leader(isr=(1, 2))
        parts = MemoryParts(partition)
        waiting = asyncio.ensure_future(parts.ask(produce(acks=-1), 9))
        await virtual_time.settle()
        assert not waiting.done()
        partition.follower_fetched(2, 3, 0, 0.0, type("Clock", (), {"last_fetch_ms": 0.0})())
        assert produced(await waiting) == [(0, 0)]
        before_s = asyncio.get_running_loop().time()
        reply = await parts.ask(produce(acks=-1, timeout_ms=700), 9)
        assert produced(reply) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
        assert asyncio.get_running_loop().time() == pytest.approx(before_s + 0.7)

    play(scenario)


def test_acks_0_has_no_answer_and_an_error_closes_the_connection() -> None:
    async def scenario() -> None:
        partition = leader()
        parts = MemoryParts(partition)
        assert await parts.ask(produce(acks=0), 9) is None and partition.log.log_end_offset == 3
        with pytest.raises(ProtocolViolation, match="acks=0 failed: UNKNOWN_TOPIC_OR_PARTITION"):
            await parts.ask(produce(7, acks=0), 9)

    play(scenario)


def test_errors_of_produce_are_told_for_each_partition() -> None:
    async def scenario() -> None:
        parts = MemoryParts(leader())
        know(parts.metadata, TopicPartition("t", 1), leader=2)
        reply = await parts.ask(produce(0, 1, 7), 10)
        elsewhere, unknown = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert produced(reply) == [(0, 0), (elsewhere, -1), (unknown, -1)]
        assert reply.responses[0].partition_responses[1].current_leader.leader_id == 2, "KIP-951"
        assert produced(await parts.ask(produce(acks=5), 9)) == [(ErrorCode.INVALID_REQUIRED_ACKS, -1)]
        refused = await parts.ask(produce(topic="__consumer_offsets"), 9)
        assert produced(refused) == [(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]

    play(scenario)


def test_a_producer_over_its_quota_is_told_and_silenced() -> None:
    async def scenario() -> None:
        parts = MemoryParts(leader())
        parts.quotas.take(QuotaEntity(client_id="me"), {"producer_byte_rate": 10.0})
        (api,) = (each for each in SERVED if each.api.name == "produce")
        context = context_of(9, size=10_000)
        reply: Any = api.handle(parts, produce(), context)  # type: ignore[arg-type]
        assert reply.throttle_time_ms > 0
        assert context.connection.muted_s == [reply.throttle_time_ms / 1000]  # type: ignore[attr-defined]

    play(scenario)


def fetch(offset: int = 0, index: int = 0, **more: Any) -> Any:
    asked = f.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)
    head = {"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1000, "session_epoch": -1, **more}
    return f.FetchRequest(topics=[f.FetchTopic(topic="t", partitions=[asked])], **head)


def test_fetch_reads_waits_and_tells_errors() -> None:
    async def scenario() -> None:
        partition = leader(end=5)
        parts = MemoryParts(partition)
        (data,) = (await parts.ask(fetch(2), 11)).responses[0].partitions
        assert (data.error_code, len(data.records), data.high_watermark) == (0, 3, 5)
        waiting = asyncio.ensure_future(parts.ask(fetch(5), 11))
        await virtual_time.settle()
        assert not waiting.done() and parts.replicas.watched
        assert await parts.ask(produce(), 9)
        assert len((await waiting).responses[0].partitions[0].records) == 3
        assert not parts.replicas.watched, "who was answered watches no more"
        (late,) = (await parts.ask(fetch(99), 11)).responses[0].partitions
        assert late.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        (nobody,) = (await parts.ask(fetch(index=7), 11)).responses[0].partitions
        assert nobody.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario)


def test_a_fetch_session_begins_goes_on_and_is_known() -> None:
    async def scenario() -> None:
        parts = MemoryParts(leader(end=5))
        first = await parts.ask(fetch(session_epoch=0), 11)
        assert first.session_id > 0 and len(first.responses[0].partitions[0].records) == 5
        nothing = f.FetchRequest(replica_id=-1, max_bytes=1000, session_id=first.session_id, session_epoch=1)
        assert len((await parts.ask(nothing, 11)).responses) == 1, "the offset did not move, so it is read again"
        nothing.session_id += 1
        assert (await parts.ask(nothing, 11)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    play(scenario)


def test_metadata() -> None:
    async def scenario() -> None:
        parts = MemoryParts(leader(), leader("u"))
        m = messages.metadata_request
        everything = await parts.ask(m.MetadataRequest(topics=None), 9)
        assert {each.name for each in everything.topics} == {"t", "u"} and everything.cluster_id == "the-cluster"
        assert [(each.node_id, each.host) for each in everything.brokers] == [(1, "host1"), (2, "host2")]
        named = [m.MetadataRequestTopic(name=name) for name in ("t", "absent")]
        for may_create, code in ((True, ErrorCode.LEADER_NOT_AVAILABLE), (False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
            reply = await parts.ask(m.MetadataRequest(topics=named, allow_auto_topic_creation=may_create), 9)
            assert {each.name: each.error_code for each in reply.topics} == {"t": 0, "absent": code}
        assert parts.topic_creation.created == ["absent"]

    play(scenario)


@pytest.mark.parametrize(("timestamp", "offset"), [(-1, 5), (-2, 0)])
def test_list_offsets(timestamp: int, offset: int) -> None:
    async def scenario() -> None:
        partition = leader(end=5)
        parts = MemoryParts(partition)
        m = messages.list_offsets_request
        asked = [m.ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in (0, 7)]
        request = m.ListOffsetsRequest(replica_id=-1, topics=[m.ListOffsetsTopic(name="t", partitions=asked)])
        found, unknown = (await parts.ask(request, 5)).topics[0].partitions
        assert (found.error_code, found.offset) == (0, offset)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario)


class FakeController:
    """Creates topics, but for those in `refused`."""

    is_active = True

    def __init__(self, parts: MemoryParts, led: bool = True) -> None:
        self.parts, self.led = parts, led
        self.waits_s: list[float] = []
        """For how long brokers were waited for, at most, that had not heard of the outcome."""

    async def wait_until_brokers_know(self, timeout_s: float) -> bool:
        self.waits_s.append(timeout_s)
        return False

    async def create_topics(
        self, topics: Any, *, validate_only: bool = False, charge: Charge = free
    ) -> dict[str, CreatedTopic | KafkaError]:
        outcomes: dict[str, CreatedTopic | KafkaError] = {}
        for each in topics:
            if each.name == "t":
                outcomes["t"] = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
                continue
            try:
                charge(each.partition_count)
            except KafkaError as problem:
                outcomes[each.name] = problem
                continue
            outcomes[each.name] = CreatedTopic(bytes(16), 1, 1, ())
            if self.led and not validate_only:
                know(self.parts.metadata, TopicPartition(each.name, 0))
        return outcomes


def test_create_topics_waits_for_leaders() -> None:
    async def scenario() -> None:
        parts = MemoryParts(leader())
        m = messages.create_topics_request
        request = m.CreateTopicsRequest(
            topics=[m.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("t", "new")],
            timeout_ms=800,
        )
        controller = parts.controller = FakeController(parts)
        reply = await parts.ask(request, 5)
        assert controller.waits_s == [0.5], "for the other brokers, which may not hear of it before they die"
        codes = {each.name: (each.error_code, each.error_message) for each in reply.topics}
        assert codes == {"t": (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."), "new": (0, None)}
        del parts.metadata.topics["new"]
        controller = parts.controller = FakeController(parts, led=False)
        before_s = asyncio.get_running_loop().time()
        reply = await parts.ask(request, 5)
        assert reply.topics[1].error_code == ErrorCode.REQUEST_TIMED_OUT
        assert asyncio.get_running_loop().time() == pytest.approx(before_s + 0.8)
        assert not controller.waits_s, "the time is over"

    play(scenario)


def test_a_topic_that_brokers_host_exists_whatever_zookeeper_says() -> None:
    """Its znode was removed by hand: made again, its producers would have been acknowledged into the log of the former one."""

    async def scenario() -> None:
        parts = MemoryParts(leader("hosted"))
        m = messages.create_topics_request
        names = ["new", "hosted", "t", "hosted"]
        request = m.CreateTopicsRequest(
            topics=[m.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names],
            timeout_ms=800,
        )
        parts.controller = FakeController(parts)
        reply = await parts.ask(request, 5)
        exists = ErrorCode.TOPIC_ALREADY_EXISTS
        assert [(each.name, each.error_code, each.error_message) for each in reply.topics] == [
            ("new", 0, None),
            ("hosted", ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic."),
            ("t", exists, "Topic 't' already exists."),
        ]
        request.topics = request.topics[1:2]
        (told,) = (await parts.ask(request, 5)).topics
        assert (told.error_code, told.error_message) == (exists, "Topic 'hosted' already exists.")

    play(scenario)


@pytest.mark.parametrize("version", [5, 6])
def test_a_client_that_creates_too_much_is_refused_in_versions_that_know_it_and_slowed_down_in_all(
    version: int,
) -> None:
    async def scenario() -> None:
        parts = MemoryParts()
        parts.controller = FakeController(parts)
        parts.quotas.take(QuotaEntity(client_id="me"), {CONTROLLER_MUTATION_RATE: 1.0})
        m = messages.create_topics_request
        wanted = [m.CreatableTopic(name=name, num_partitions=12, replication_factor=1) for name in "ab"]
        reply = await parts.ask(m.CreateTopicsRequest(topics=wanted, timeout_ms=800), version)
        codes = [each.error_code for each in reply.topics]
        if version == 6:
            assert (codes, reply.throttle_time_ms) == ([0, ErrorCode.THROTTLING_QUOTA_EXCEEDED], 1000)
        else:
            assert (codes, reply.throttle_time_ms) == ([0, 0], 13_000)

    play(scenario)


def test_topics_that_are_made_because_somebody_asks_count_as_created() -> None:
    async def scenario() -> None:
        parts = MemoryParts()
        parts.quotas.take(QuotaEntity(client_id="me"), {CONTROLLER_MUTATION_RATE: 1.0})
        m = messages.metadata_request
        topics = [m.MetadataRequestTopic(name=f"new-{number}") for number in range(12)]
        reply = await parts.ask(m.MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9)
        assert {each.error_code for each in reply.topics} == {ErrorCode.LEADER_NOT_AVAILABLE}
        assert reply.throttle_time_ms == 1000, "one more than eleven seconds bring"

    play(scenario)


def test_find_coordinator_makes_the_topics_of_groups_and_transactions() -> None:
    async def scenario() -> None:
        parts = MemoryParts()
        m = messages.find_coordinator_request
        reply = await parts.ask(m.FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"]), 4)
        found = [(each.key, each.error_code, each.node_id, each.host) for each in reply.coordinators]
        assert found == [("g", 0, 1, "host1"), ("h", 0, 1, "host1")]
        assert parts.topic_creation.created == [GROUPS_TOPIC.topic]
        transactional = await parts.ask(m.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
        found = [(each.key, each.error_code, each.node_id, each.host) for each in transactional.coordinators]
        assert found == [("x", 0, 1, "host1")]
        assert parts.topic_creation.created == [GROUPS_TOPIC.topic, TRANSACTIONS_TOPIC]
        strange = await parts.ask(m.FindCoordinatorRequest(key_type=9, coordinator_keys=["x"]), 4)
        assert strange.coordinators[0].error_code == ErrorCode.INVALID_REQUEST

    play(scenario)


def test_api_versions_has_every_api_with_the_versions_that_are_served() -> None:
    async def scenario() -> None:
        request = messages.api_versions_request.ApiVersionsRequest(
            client_software_name="a", client_software_version="1"
        )
        reply = await MemoryParts().ask(request, 3)
        told = {each.api_key: (each.min_version, each.max_version) for each in reply.api_keys}
        assert told == {
            int(each.api.key): (each.first_version, each.last_version) for each in SERVED if not each.api.is_private
        }

    play(scenario)
