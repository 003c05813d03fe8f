"""What clients are told while a broker is dead or a partition has no leader. `peers/test_sick_clusters` has the same from Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kafkalite.controller.control_requests import LiveBroker, PartitionMetadata
from kafkalite.controller.requests import AlreadyMarkedForDeletion, Charge, CreatedTopic, NewTopic, TopicReference, free
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.types import NO_BROKER, Endpoint, TopicPartition
from tests.unit.broker.fake_log import assignment
from tests.unit.broker.handlers.test_handlers import play, produce
from tests.unit.broker.memory_parts import GROUPS_TOPIC, MemoryParts, know, leader

DEAD = 102


def led_by(parts: MemoryParts, broker_id: int, replicas: Sequence[int], isr: Sequence[int], topic: str = "t") -> None:
    """Have metadata know partition 0 like this."""
    place = TopicPartition(topic, 0)
    know(parts.metadata, place)
    parts.metadata.topics[topic].partitions[0] = PartitionMetadata(
        broker_id, 4, list(isr), list(replicas), [each for each in replicas if each == DEAD], 0, 1
    )


async def metadata_of(parts: MemoryParts, version: int) -> tuple[int, int, list[int], list[int]]:
    """(error code, leader, replicas, ISR) of partition t-0."""
    m = messages.metadata_request
    reply = await parts.ask(m.MetadataRequest(topics=[m.MetadataRequestTopic(name="t")]), version)
    (found,) = reply.topics[0].partitions
    return found.error_code, found.leader_id, found.replica_nodes, found.isr_nodes


@pytest.mark.parametrize(
    ("leader_id", "replicas", "isr", "told"),
    [
        (1, [1, 2], [1, 2], (ErrorCode.NONE, 1, [1, 2], [1, 2])),
        (1, [1, DEAD], [1], (ErrorCode.REPLICA_NOT_AVAILABLE, 1, [1], [1])),
        (2, [DEAD, 1, 2], [DEAD, 2], (ErrorCode.REPLICA_NOT_AVAILABLE, 2, [1, 2], [2])),
        (NO_BROKER, [DEAD, 1], [DEAD], (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1], [])),
        (DEAD, [DEAD, 1], [DEAD, 1], (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1], [1])),
    ],
)
def test_metadata_0_leaves_out_replicas_that_no_client_can_reach(
    leader_id: int, replicas: list[int], isr: list[int], told: tuple[int, int, list[int], list[int]]
) -> None:
    """Consumers of 0.8 to 0.10 through ZooKeeper look each of them up among the brokers of the answer."""

    async def scenario() -> None:
        parts = MemoryParts()
        led_by(parts, leader_id, replicas, isr)
        assert await metadata_of(parts, 0) == told
        for version in (1, 5, 12):
            code = ErrorCode.NONE if told[1] >= 0 else ErrorCode.LEADER_NOT_AVAILABLE
            assert await metadata_of(parts, version) == (code, told[1], replicas, isr)

    play(scenario)


def test_metadata_of_a_leader_without_the_listener() -> None:
    async def scenario() -> None:
        parts = MemoryParts()
        parts.metadata.brokers[3] = LiveBroker(3, {"OTHER": Endpoint("OTHER", "host3", 9092)})
        led_by(parts, 3, [3, 1], [3, 1])
        assert await metadata_of(parts, 0) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1], [1])
        assert await metadata_of(parts, 5) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [3, 1], [3, 1])
        assert await metadata_of(parts, 6) == (ErrorCode.LISTENER_NOT_FOUND, -1, [3, 1], [3, 1])
        led_by(parts, 1, [3, 1], [3, 1])
        assert await metadata_of(parts, 0) == (ErrorCode.REPLICA_NOT_AVAILABLE, 1, [1], [1])

    play(scenario)


def test_find_coordinator_does_not_wait_for_the_leader_of_a_partition_that_has_none() -> None:
    async def scenario() -> None:
        parts = MemoryParts()
        led_by(parts, NO_BROKER, [DEAD], [DEAD], GROUPS_TOPIC.topic)
        m, before_s = messages.find_coordinator_request, asyncio.get_running_loop().time()
        reply = await parts.ask(m.FindCoordinatorRequest(coordinator_keys=[str(n) for n in range(100)]), 4)
        assert {each.error_code for each in reply.coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert len(reply.coordinators) == 100 and asyncio.get_running_loop().time() == before_s

    play(scenario)


@pytest.mark.parametrize(("version", "message"), [(1, "NONE"), (3, "NONE"), (4, ""), (6, "")])
def test_the_message_of_a_coordinator_that_is_found(version: int, message: str) -> None:
    async def scenario() -> None:
        parts = MemoryParts()
        know(parts.metadata, GROUPS_TOPIC)
        m = messages.find_coordinator_request
        (found,) = (await parts.ask(m.FindCoordinatorRequest(coordinator_keys=["g"]), version)).coordinators
        assert (found.error_code, found.node_id, found.error_message) == (0, 1, message)

    play(scenario)


@pytest.mark.parametrize(
    ("kind", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_endpoints_that_are_no_brokers(kind: int, code: ErrorCode) -> None:
    async def scenario() -> None:
        m = messages.describe_cluster_request
        assert (await MemoryParts().ask(m.DescribeClusterRequest(endpoint_type=kind), 1)).error_code == code

    play(scenario)


def test_a_controller_that_has_no_endpoint_for_the_caller_is_not_named() -> None:
    async def scenario() -> None:
        parts, m = MemoryParts(), messages.describe_cluster_request
        assert (await parts.ask(m.DescribeClusterRequest(), 0)).controller_id == 1
        parts.metadata.controller_id = DEAD
        assert (await parts.ask(m.DescribeClusterRequest(), 0)).controller_id == NO_BROKER

    play(scenario)


@pytest.mark.parametrize("version", [1, 2, 7, 8])
def test_offset_fetch_of_a_group_that_is_coordinated_elsewhere(version: int) -> None:
    async def scenario() -> None:
        def elsewhere(group_id: str) -> None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

        parts = MemoryParts()
        parts.groups.machine_for = elsewhere  # type: ignore[attr-defined]
        m = messages.offset_fetch_request
        topics = [m.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        group = m.OffsetFetchRequestGroup(group_id="g", topics=topics)
        (told,) = (await parts.ask(m.OffsetFetchRequest(groups=[group]), version)).groups
        if version == 1:  # which has no error of the group
            assert told.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        else:
            assert (told.error_code, told.topics) == (ErrorCode.NOT_COORDINATOR, [])

    play(scenario)


def test_list_offsets_shows_all_of_the_log_to_who_is_no_consumer() -> None:
    async def scenario() -> None:
        partition = leader(end=5)
        partition.leader_epoch_start_offset = 0
        partition.log.log_end_offset = 8
        parts = MemoryParts(partition)
        m = messages.list_offsets_request
        for replica_id, end in ((-1, 5), (-2, 8)):
            asked = [m.ListOffsetsTopic(name="t", partitions=[m.ListOffsetsPartition(timestamp=-1)])]
            reply = await parts.ask(m.ListOffsetsRequest(replica_id=replica_id, topics=asked), 1)
            assert reply.topics[0].partitions[0].offset == end

    play(scenario)


class NoController:
    """Another broker is."""

    async def elect_leaders(self, partitions: Any, *, unclean: bool) -> Any:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)


@pytest.mark.parametrize("names", [None, ["t"]])
def test_elections_elsewhere_are_refused_for_each_partition(names: list[str] | None) -> None:
    async def scenario() -> None:
        parts = MemoryParts(leader())
        parts.controller = NoController()
        m = messages.elect_leaders_request
        wanted = None if names is None else [m.TopicPartitions(topic=name, partitions=[0]) for name in names]
        reply = await parts.ask(m.ElectLeadersRequest(topic_partitions=wanted, timeout_ms=0), 2)
        assert reply.error_code == ErrorCode.NONE
        ((topic, results),) = [(each.topic, each.partition_result) for each in reply.replica_election_results]
        assert (topic, [(each.partition_id, each.error_code) for each in results]) == (
            "t",
            [(0, ErrorCode.NOT_CONTROLLER)],
        )

    play(scenario)


class Controller:
    """Makes every topic, of which no partition is ever led, and knows the topics in `marked` as such that are being deleted."""

    def __init__(self, *marked: str) -> None:
        self.marked = marked

    async def create_topics(self, topics: Sequence[NewTopic], **_: Any) -> dict[str, CreatedTopic | KafkaError]:
        refused = KafkaError(ErrorCode.INVALID_PARTITIONS)
        return {t.name: refused if not t.partition_count else CreatedTopic(bytes(15) + b"i", 1, 1, ()) for t in topics}

    async def delete_topics(
        self, topics: Sequence[TopicReference], *, charge: Charge = free
    ) -> list[tuple[str | None, KafkaError | None]]:
        names = [topic.name or "by-id" for topic in topics]
        return [(name, AlreadyMarkedForDeletion() if name in self.marked else None) for name in names]

    async def wait_until_deleted(self, topic: str, timeout_s: float) -> bool:
        return True

    async def wait_until_brokers_know(self, timeout_s: float) -> bool:
        return True


def test_topics_that_are_not_made_have_no_settings_and_no_counts() -> None:
    async def scenario() -> None:
        parts = MemoryParts()
        parts.controller = Controller()
        m = messages.create_topics_request
        topics = [m.CreatableTopic(name="late", num_partitions=1), m.CreatableTopic(name="refused", num_partitions=0)]
        told = (await parts.ask(m.CreateTopicsRequest(topics=topics, timeout_ms=10), 7)).topics
        assert [(t.error_code, t.configs, t.num_partitions, t.replication_factor) for t in told] == [
            (ErrorCode.REQUEST_TIMED_OUT, [], -1, -1),
            (ErrorCode.INVALID_PARTITIONS, [], -1, -1),
        ]
        assert any(told[0].topic_id), "it was made"

    play(scenario)


def test_a_deleted_topic_that_is_gone_from_metadata_is_unknown() -> None:
    """A dead replica may keep its znodes for days. While metadata still shows it, it is deleted once more."""

    async def scenario() -> None:
        parts = MemoryParts()
        parts.controller = Controller("gone", "shown", "by-id")
        know(parts.metadata, TopicPartition("shown", 0))
        m = messages.delete_topics_request
        topics = [m.DeleteTopicState(name="gone"), m.DeleteTopicState(name="shown")]
        topics.append(m.DeleteTopicState(name=None, topic_id=b"i" * 16))
        reply = await parts.ask(m.DeleteTopicsRequest(topics=topics, timeout_ms=10), 6)
        assert [each.error_code for each in reply.responses] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    play(scenario)


# Who leads instead (KIP-951)


def with_leaders_elsewhere() -> MemoryParts:
    """t-0 is led by the live broker 2, gone-0 by nobody; no partition is here."""
    parts = MemoryParts()
    led_by(parts, 2, [2, 1], [2, 1])
    led_by(parts, NO_BROKER, [DEAD], [DEAD], "gone")
    parts.metadata.brokers[2] = LiveBroker(2, {"PLAINTEXT": Endpoint("PLAINTEXT", "host2", 9092)}, "rack2")
    return parts


def told_of(reply: Any, partitions: str) -> tuple[list[Any], list[Any]]:
    """((leader, epoch) of each partition or None, the endpoints)."""
    leaders = [each.current_leader for topic in reply.responses for each in getattr(topic, partitions)]
    endpoints = [(each.node_id, each.host, each.port, each.rack) for each in reply.node_endpoints]
    return [each and (each.leader_id, each.leader_epoch) for each in leaders], endpoints


def test_a_producer_is_told_who_leads_and_where() -> None:
    async def scenario() -> None:
        parts, m = with_leaders_elsewhere(), messages.produce_request
        request = produce()
        request.topic_data += produce(topic="gone").topic_data + produce(topic="unknown").topic_data
        reply = await parts.ask(request, 10)
        assert told_of(reply, "partition_responses") == ([(2, 4), (-1, 4), None], [(2, "host2", 9092, "rack2")])
        assert isinstance(request, m.ProduceRequest) and not (await parts.ask(request, 9)).node_endpoints

    play(scenario)


def test_a_producer_whose_leader_goes_while_it_waits_is_told_the_next_one() -> None:
    async def scenario() -> None:
        partition = leader(isr=(1, 2))
        parts = MemoryParts(partition)
        waiting = asyncio.ensure_future(parts.ask(produce(acks=-1), 10))
        await asyncio.sleep(0.1)
        partition.become_follower(assignment(leader=2, leader_epoch=5, isr=(2, 1), replicas=(1, 2)))
        assert told_of(await waiting, "partition_responses") == ([(2, 5)], [(2, "host2", 9092, None)])

    play(scenario)


def test_a_consumer_is_told_who_leads_and_where() -> None:
    async def scenario() -> None:
        parts, m = with_leaders_elsewhere(), messages.fetch_request
        parts.metadata._names = {b"t" * 16: "t", b"g" * 16: "gone"}
        topics = [
            m.FetchTopic(topic_id=topic_id, partitions=[m.FetchPartition(partition=0)])
            for topic_id in (b"t" * 16, b"g" * 16)
        ]
        for version, told in ((16, ([(2, 4), (-1, 4)], [(2, "host2", 9092, "rack2")])), (15, ([None, None], []))):
            request = m.FetchRequest(replica_state=m.ReplicaState(), max_bytes=1000, topics=topics)
            assert told_of(await parts.ask(request, version), "partitions") == told

    play(scenario)


def test_a_consumer_of_an_older_epoch_is_told_the_newer_one() -> None:
    async def scenario() -> None:
        partition, m = leader(), messages.fetch_request
        parts = MemoryParts(partition)
        parts.metadata._names = {partition.topic_id: "t"}
        asked = m.FetchPartition(partition=0, current_leader_epoch=3)
        topics = [m.FetchTopic(topic_id=partition.topic_id, partitions=[asked])]
        request = m.FetchRequest(replica_state=m.ReplicaState(), max_bytes=1000, topics=topics)
        assert told_of(await parts.ask(request, 16), "partitions") == ([(1, 4)], [(1, "host1", 9092, None)])

    play(scenario)
