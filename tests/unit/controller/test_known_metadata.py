"""What brokers prove to know, and what a new controller sends them because of that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from kafkalite.broker.metadata_cache import MetadataCache, TopicMetadata
from kafkalite.controller import failover, known_metadata
from kafkalite.controller.channel_manager import ConnectionChannel
from kafkalite.controller.cluster_state import RegisteredBroker
from kafkalite.controller.control_requests import (
    Command,
    MetadataDigests,
    PartitionMetadata,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadataTopic,
)
from kafkalite.controller.known_metadata import KnownMetadata
from kafkalite.controller.metadata_digests import DIGEST_BYTES, bucket_of, digest_metadata
from kafkalite.controller.wire import encode_commands
from kafkalite.portions import in_one_go
from kafkalite.protocol.apis import PEER_SOFTWARE_NAME, ApiKey
from kafkalite.protocol.inter_broker import ProtocolVersion
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import Endpoint, TopicPartition
from tests.unit.broker.loop_turns import measured_turns
from tests.unit.controller.fake_cluster import FakeBroker, FakeCluster

ID, OTHER_ID = b"i" * 16, b"o" * 16
STATE = PartitionMetadata(1, 7, [1, 2], [1, 2, 9], [9], 11, 4)
BUCKETS = 8


def topic(
    name: str = "t", partitions: dict[int, PartitionMetadata] | None = None, topic_id: bytes = ID
) -> TopicMetadata:
    return TopicMetadata(name, topic_id, {0: STATE, 1: STATE} if partitions is None else partitions)


def digests(*topics: TopicMetadata, buckets: int = 1) -> bytes:
    return in_one_go(digest_metadata(topics, buckets))


# Digests


@pytest.mark.parametrize("name", [each.name for each in fields(PartitionMetadata)])
def test_a_digest_covers_each_field_of_a_partition(name: str) -> None:
    value = getattr(STATE, name)
    for other in ([*value, 5], value[:-1], value[::-1]) if isinstance(value, list) else (value + 1, -1):
        if other != value:
            assert digests(topic()) != digests(topic(partitions={0: STATE, 1: replace(STATE, **{name: other})}))


def test_a_digest_covers_names_ids_and_which_partitions_there_are() -> None:
    found = [
        digests(),
        digests(topic()),
        digests(topic("u")),
        digests(topic(topic_id=OTHER_ID)),
        digests(topic(partitions={})),
        digests(topic(partitions={0: STATE})),
        digests(topic(partitions={0: STATE, 2: STATE})),
        digests(topic(partitions={0: STATE}), topic("u", {1: STATE})),
        digests(topic(), topic("u")),
    ]
    assert len(set(found)) == len(found)


def test_a_number_does_not_move_from_one_list_to_the_next() -> None:
    """ISR 1, 2 of replicas 1 is not ISR 1 of replicas 2, 1."""
    one, other = replace(STATE, isr=[1, 2], replicas=[1]), replace(STATE, isr=[1], replicas=[2, 1])
    assert digests(topic(partitions={0: one})) != digests(topic(partitions={0: other}))


def test_a_digest_does_not_depend_on_the_order_in_which_things_became_known() -> None:
    one = [topic("a"), topic("b", {0: STATE, 1: replace(STATE, leader=2)})]
    other = [topic("b", {1: replace(STATE, leader=2), 0: STATE}), topic("a")]
    for buckets in (1, BUCKETS):
        assert digests(*one, buckets=buckets) == digests(*other, buckets=buckets)


def test_a_topic_is_in_one_bucket() -> None:
    before, after = digests(topic("a"), topic("b"), buckets=BUCKETS), digests(topic("a"), buckets=BUCKETS)
    changed = [
        at // DIGEST_BYTES
        for at in range(0, DIGEST_BYTES * BUCKETS, DIGEST_BYTES)
        if before[at : at + DIGEST_BYTES] != after[at : at + DIGEST_BYTES]
    ]
    assert changed == [bucket_of("b", BUCKETS)]


# What is sent to whom

BROKERS = [RegisteredBroker(number, 100 + number, ()) for number in range(1, 9)]
NAMES = [f"topic-{number}" for number in range(20)]
REFERENCE = {name: topic(name) for name in NAMES}


def known_to(answers: dict[int, bytes | None]) -> KnownMetadata:
    """A reference of all NAMES, and what brokers answered."""
    known = KnownMetadata(REFERENCE)
    in_one_go(known.digest_reference())
    for broker, digests_ in answers.items():
        known.note_digests(broker, 100 + broker, digests_)
    return known


def proof(**changed: TopicMetadata) -> bytes:
    """The digests of a broker that knows the reference, but for some topics, by the number in their names."""
    topics = REFERENCE | {f"topic-{number[1:]}": each for number, each in changed.items()}
    return digests(*topics.values(), buckets=len(NAMES))


def announced(changes: dict[tuple[str, int], PartitionMetadata] | None = None) -> list[UpdateMetadataTopic]:
    """What a controller tells of all partitions; `changes` differ from the reference."""
    return [
        UpdateMetadataTopic(
            name,
            ID,
            {index: (changes or {}).get((name, index), state) for index, state in REFERENCE[name].partitions.items()},
        )
        for name in NAMES
    ]


def sent(known: KnownMetadata, topics: list[UpdateMetadataTopic], count: int = 1) -> list[set[tuple[str, int]]]:
    """The partitions that each of the first brokers is sent."""
    divided = in_one_go(known.divide(topics, BROKERS[:count]))
    by_broker = {
        broker.broker_id: {(each.name, index) for each in wanted for index in (*each.partitions, *each.deleted)}
        for group, wanted in divided
        for broker in group
    }
    return [by_broker[broker.broker_id] for broker in BROKERS[:count]]


EVERYTHING = {(name, index) for name in NAMES for index in (0, 1)}


def test_who_has_proven_nothing_is_sent_everything() -> None:
    for answer in (None, b"", proof()[:-1], proof() + bytes(DIGEST_BYTES), bytes(len(proof()))):
        assert sent(known_to({1: answer}), announced()) == [EVERYTHING]
    assert sent(known_to({}), announced()) == [EVERYTHING]


def test_an_answer_of_another_length_is_not_kept() -> None:
    """A controller holds the answers of all brokers, of which a response may have a gigabyte."""
    known = known_to({1: proof() + bytes(DIGEST_BYTES), 2: proof()})
    assert known._answers == {1: (101, None), 2: (102, proof())}


def test_who_knows_the_reference_is_sent_what_differs_from_it() -> None:
    changes = {("topic-3", 1): replace(STATE, isr=[1])}
    assert sent(known_to({1: proof()}), announced(changes)) == [{("topic-3", 1)}]
    assert sent(known_to({1: proof()}), announced()) == [set()]


def test_a_bucket_with_another_digest_is_sent_as_a_whole() -> None:
    known = known_to({1: proof(n3=topic("topic-3", {0: STATE, 1: replace(STATE, offline_replicas=[])})), 2: proof()})
    bucket = {name for name in NAMES if bucket_of(name, len(NAMES)) == bucket_of("topic-3", len(NAMES))}
    assert sent(known, announced(), 2) == [{(name, index) for name in bucket for index in (0, 1)}, set()]


def test_a_proof_of_another_incarnation_is_none() -> None:
    known = known_to({})
    known.note_digests(1, 100, proof())
    assert sent(known, announced()) == [EVERYTHING]


def test_nothing_is_proven_before_the_reference_has_digests() -> None:
    known = KnownMetadata(REFERENCE)
    known.note_digests(1, 101, proof())
    assert sent(known, announced()) == [EVERYTHING]
    in_one_go(known.digest_reference())
    assert sent(known, announced()) == [EVERYTHING], "it was sent meanwhile"


def test_what_was_sent_is_sent_again_when_it_is_as_the_reference_again() -> None:
    known = known_to({1: proof()})
    assert sent(known, announced({("topic-3", 1): replace(STATE, offline_replicas=[1, 9])})) == [{("topic-3", 1)}]
    assert sent(known, announced()) == [EVERYTHING]


def test_a_topic_that_was_created_again_is_sent() -> None:
    known = known_to({1: proof()})
    again = [replace(each, topic_id=OTHER_ID) if each.name == "topic-3" else each for each in announced()]
    assert sent(known, again) == [{("topic-3", 0), ("topic-3", 1)}]


def test_partitions_of_a_deleted_topic_are_sent() -> None:
    known = known_to({1: proof()})
    gone = UpdateMetadataTopic("topic-3", ID, {}, {0: STATE, 1: STATE})
    assert sent(known, [gone, *(each for each in announced() if each.name != "topic-3")]) == [
        {("topic-3", 0), ("topic-3", 1)}
    ]


def test_a_new_topic_is_sent() -> None:
    assert sent(known_to({1: proof()}), [UpdateMetadataTopic("new", ID, {0: STATE})]) == [{("new", 0)}]


def test_many_brokers_that_lack_different_things_are_sent_what_any_of_them_lacks() -> None:
    """Each group has its messages encoded for it, so that groups are few."""
    answers: dict[int, bytes | None] = {
        broker: proof(**{f"n{broker}": topic(f"topic-{broker}", {})}) for broker in range(1, 7)
    }
    known = known_to(answers | {7: proof()})
    divided = in_one_go(known.divide(announced(), BROKERS))
    assert sorted(len(group) for group, _ in divided) == [1, 1, 6]
    together = sent(known_to(answers | {7: proof()}), announced(), 8)
    assert {(f"topic-{broker}", 0) for broker in range(1, 7)} <= together[0] == together[5] < EVERYTHING
    assert together[6:] == [set(), EVERYTHING]


# Takeovers


@pytest.fixture
def proves_always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As with many partitions."""
    monkeypatch.setattr(known_metadata, "DIFFERENCES_FROM", 1)
    yield


async def started(*, proves_metadata: bool = True) -> FakeCluster:
    """Four brokers, of which 1 is the controller and has a replica of the topic "led" only."""
    cluster = await FakeCluster(proves_metadata=proves_metadata).start(1, 2, 3, 4)
    await cluster.create_topic("led", [1, 2], [2, 1])
    await cluster.create_topic("other", *([2, 3, 4], [3, 4, 2]) * 3)
    return cluster


def told_in_term(broker: FakeBroker, epoch: int = 2) -> set[tuple[str, int]]:
    """The partitions that UpdateMetadata of a term told a broker of."""
    return {
        (each.topic_name, state.partition_index)
        for request in broker.requests(ApiKey.UPDATE_METADATA)
        if request.controller_epoch == epoch
        for each in request.topic_states
        for state in each.partition_states
    }


def known_of(broker: FakeBroker) -> dict[str, Any]:
    assert broker.metadata is not None
    return broker.metadata.topics


LED = {("led", 0), ("led", 1)}
ALL = LED | {("other", index) for index in range(6)}


@pytest.mark.usefixtures("proves_always")
def test_a_new_controller_sends_what_differs_from_what_brokers_know() -> None:
    async def scenario() -> None:
        cluster = await started()
        await cluster.kill(1)
        for broker in (cluster.brokers[2], cluster.brokers[3], cluster.brokers[4]):
            requests = [each for each in broker.received if each.controller_epoch == 2]
            assert requests[0].API.key == ApiKey.METADATA_DIGESTS, "before anything changes what the broker knows"
            assert told_in_term(broker) == LED
            assert known_of(broker) == known_of(cluster.brokers[2])
            assert known_of(broker)["led"].partitions[0].leader == 2
            assert broker.known_brokers == {2, 3, 4}
            assert broker.metadata is not None and broker.metadata.controller_epoch == 2
        given = {each.partition_index for each in roles_in_term(cluster.brokers[3], "other")}
        assert given == set(range(6)), "roles are sent to everybody"
        assert cluster.controller.cluster is not None and cluster.controller.cluster.known_metadata is None
        await cluster.stop()

    run(scenario())


def roles_in_term(broker: FakeBroker, name: str, epoch: int = 2) -> list[Any]:
    return [
        state
        for request in broker.requests(ApiKey.LEADER_AND_ISR)
        if request.controller_epoch == epoch
        for each in request.topic_states
        if each.topic_name == name
        for state in each.partition_states
    ]


@pytest.mark.usefixtures("proves_always")
def test_a_broker_that_missed_a_change_is_sent_it() -> None:
    """The former controller died before it had told everybody."""

    async def scenario() -> None:
        cluster = await started()
        missed = cluster.brokers[4].metadata
        assert missed is not None
        states = missed.topics["other"].partitions
        missed.topics["other"] = replace(missed.topics["other"], partitions=states | {0: replace(states[0], isr=[2])})
        await cluster.kill(1)
        assert known_of(cluster.brokers[4]) == known_of(cluster.brokers[3])
        assert told_in_term(cluster.brokers[4]) == ALL
        assert told_in_term(cluster.brokers[3]) == LED
        await cluster.stop()

    run(scenario())


@pytest.mark.usefixtures("proves_always")
def test_the_controllers_own_broker_may_be_the_one_that_missed_a_change() -> None:
    async def scenario() -> None:
        cluster = await started()
        for broker in (cluster.brokers[2], cluster.brokers[3], cluster.brokers[4]):
            if broker.broker_id == 2:  # the next controller
                del known_of(broker)["other"]
        await cluster.kill(1)
        assert cluster.controller.broker_id == 2
        assert all(known_of(cluster.brokers[each]) == known_of(cluster.brokers[2]) for each in (3, 4))
        assert known_of(cluster.brokers[2]).keys() == {"led", "other"}
        await cluster.stop()

    run(scenario())


@pytest.mark.usefixtures("proves_always")
def test_a_broker_of_apache_kafka_is_sent_everything() -> None:
    async def scenario() -> None:
        cluster = await started()
        cluster.brokers[3].metadata = None
        await cluster.kill(1)
        assert (told_in_term(cluster.brokers[3]), told_in_term(cluster.brokers[4])) == (ALL, LED)
        assert not cluster.brokers[3].requests(ApiKey.METADATA_DIGESTS)
        assert cluster.brokers[3].closed_channels == 1, "that of the former controller; the connection is kept"
        await cluster.stop()

    run(scenario())


@pytest.mark.usefixtures("proves_always")
def test_digests_are_waited_for() -> None:
    async def scenario() -> None:
        cluster = await started()
        cluster.brokers[3].digests_take_s = 0.5
        await cluster.kill(1)
        await cluster.until(lambda: roles_in_term(cluster.brokers[3], "other"))
        assert told_in_term(cluster.brokers[3]) == LED
        await cluster.stop()

    run(scenario())


@pytest.mark.usefixtures("proves_always")
def test_digests_of_many_partitions_are_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Late answers of a hundred brokers about a million partitions would have each of them sent all."""
    monkeypatch.setattr(failover, "_DIGEST_TIMEOUT_S", 0.5)

    async def scenario() -> None:
        cluster = await started()
        cluster.brokers[3].digests_take_s = 3.0
        await cluster.kill(1)
        await cluster.until(lambda: roles_in_term(cluster.brokers[3], "other"))
        assert told_in_term(cluster.brokers[3]) == LED
        await cluster.stop()

    run(scenario())


def test_digests_are_the_same_in_each_release() -> None:
    """A broker and its controller may be of different ones."""
    assert digests(topic()).hex() == "7b1bbe31f5a4fa5454cb8ad0c618954f"


@pytest.mark.usefixtures("proves_always")
def test_who_does_not_say_in_time_what_it_knows_is_sent_everything_and_delays_no_election() -> None:
    async def scenario() -> None:
        cluster = await started()
        cluster.brokers[3].digests_take_s = 60.0
        await cluster.kill(1)
        assert told_in_term(cluster.brokers[4]) == LED, "those that change do not wait"
        await cluster.until(lambda: roles_in_term(cluster.brokers[4], "other"))
        assert told_in_term(cluster.brokers[4]) == LED
        await cluster.until(lambda: told_in_term(cluster.brokers[3]) == ALL)
        await cluster.stop()

    run(scenario())


@pytest.mark.usefixtures("proves_always")
def test_a_broker_that_cannot_be_reached_at_first_is_sent_everything() -> None:
    async def scenario() -> None:
        cluster = await started()
        cluster.brokers[3].unreachable = True
        await cluster.kill(1)
        cluster.brokers[3].unreachable = False
        await cluster.until(lambda: told_in_term(cluster.brokers[3]) == ALL)
        await cluster.stop()

    run(scenario())


def test_in_a_small_cluster_nobody_is_asked() -> None:
    async def scenario() -> None:
        cluster = await started()
        await cluster.kill(1)
        assert told_in_term(cluster.brokers[3]) == ALL
        assert not cluster.brokers[3].requests(ApiKey.METADATA_DIGESTS)
        await cluster.stop()

    run(scenario())


def test_digests_are_computed_in_portions() -> None:
    cache = MetadataCache()
    cache.topics = {name: topic(name, dict.fromkeys(range(1000), STATE)) for name in NAMES}

    async def scenario() -> None:
        cluster = await FakeCluster(proves_metadata=True).start(1, 2)
        for broker in cluster.brokers.values():
            assert broker.metadata is not None
            broker.metadata.topics = dict(cache.topics)
        with measured_turns() as turns:
            await cluster.kill(1)
        assert turns.longest < turns.calls / 4, turns
        await cluster.stop()

    run(scenario())


class Negotiated:
    """A connection to a broker that speaks some APIs to brokers; notes what is asked, and how long an answer may take."""

    closed = False

    def __init__(self, *spoken: ApiKey) -> None:
        self._spoken = spoken
        self.seen: list[Any] = []

    async def negotiate(self, timeout_s: float, software_name: str) -> None:
        self.seen.append(software_name)

    def version_of(self, key: ApiKey) -> int:
        if key not in self._spoken:
            raise ValueError("not spoken")
        return 0

    def send_encoded(self, api_key: ApiKey, version: int, body: Any) -> Any:
        self.seen.append(api_key)

    async def answer_to(self, request: object, future: Any, timeout_s: float) -> str:
        self.seen.append(timeout_s)
        return "answer"


def test_what_only_brokers_of_ours_know_is_sent_to_who_speaks_it() -> None:
    """Other requests go out without a negotiation, as Apache Kafka's controller sends them."""
    (asked,) = in_one_go(
        encode_commands([Command(3, MetadataDigests(1, 5, 103, 8))], ProtocolVersion(3, 9, 0).requests)
    )
    stop = Command(3, StopReplica(1, 5, 103, {TopicPartition("t", 0): StopReplicaPartition(1, False)}))
    (usual,) = in_one_go(encode_commands([stop], ProtocolVersion(3, 9, 0).requests))

    async def scenario(connection: Negotiated) -> None:
        async def connect(endpoint: Endpoint, client_id: str, timeout_s: float) -> Any:
            return connection

        channel = ConnectionChannel(Endpoint("PLAINTEXT", "host", 9092), "1", 30.0, connect)
        assert await channel.request_encoded(usual) == "answer"
        await channel.request_encoded(asked)

    ours, other = Negotiated(ApiKey.METADATA_DIGESTS), Negotiated()
    run(scenario(ours))
    assert ours.seen == [ApiKey.STOP_REPLICA, 30.0, PEER_SOFTWARE_NAME, ApiKey.METADATA_DIGESTS, 10.0]
    with pytest.raises(ValueError, match="not spoken"):
        run(scenario(other))
    assert other.seen == [ApiKey.STOP_REPLICA, 30.0, PEER_SOFTWARE_NAME]
