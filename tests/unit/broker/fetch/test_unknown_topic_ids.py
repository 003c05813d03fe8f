"""Fetches that name topics by ids which this broker does not know yet, knows no more, or knows as another topic's (KIP-516).

What Apache Kafka 3.9.1 answers was looked at beside these: a partition stays in its session, whatever its id stands for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.broker.fetch.fetch_sessions import FetchSessionCache
from kafkalite.broker.handlers import fetch as fetch_handler
from kafkalite.controller.control_requests import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrTopic,
    LiveBroker,
    PartitionMetadata,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataTopic,
)
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import NO_TOPIC_ID, TopicPartition
from tests.unit.broker.memory_parts import MemoryParts
from tests.unit.broker.replication.test_replicas import Node

f = messages.fetch_request
NO, UNKNOWN_ID = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID
UNKNOWN, OTHER_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID


def id_of(number: int) -> bytes:
    return b"topic id %07d" % number


class Broker:
    """Fetches of broker 1, which hears of topics from a controller; `fetch` gives {(id, partition): (error, number of records)}."""

    def __init__(self) -> None:
        self.node, self.parts = Node(), MemoryParts()
        replicas = self.parts.replicas = self.parts.partition_reader.replicas = self.node.replicas  # type: ignore[assignment]
        self.parts.metadata = self.node.metadata
        self.parts.fetch_sessions = FetchSessionCache(
            10, lambda taken: len(taken) + 1, replicas.watch, replicas.unwatch
        )
        self.session_id = self.epoch = self.leader_epoch = 0
        self.version = 13

    async def host(self, name: str, topic_id: bytes) -> ErrorCode:
        """LeaderAndIsr: lead partition 0."""
        self.leader_epoch += 1
        partition = TopicPartition(name, 0)
        state = LeaderAndIsrPartition(partition, 1, 1, self.leader_epoch, 0, (1,), (1,), is_new=True)
        outcome = await self.node.replicas.apply_leader_and_isr(
            LeaderAndIsr(3, 1, -1, [LeaderAndIsrTopic(name, topic_id, [state])])
        )
        return outcome[partition]

    async def hear(self, name: str, topic_id: bytes, is_deleted: bool = False) -> None:
        """UpdateMetadata of partition 0."""
        states = {0: PartitionMetadata(1, self.leader_epoch, [1], [1], [], 0, 1)}
        topic = UpdateMetadataTopic(name, topic_id, *(({}, states) if is_deleted else (states, {})))
        brokers = [LiveBroker(1, {})]
        await self.node.replicas.update_metadata(UpdateMetadata(3, 1, -1, [topic], brokers))

    async def make(self, name: str, topic_id: bytes) -> None:
        assert await self.host(name, topic_id) == NO
        await self.hear(name, topic_id)

    async def delete(self, name: str, topic_id: bytes) -> None:
        await self.hear(name, topic_id, is_deleted=True)
        await self.node.replicas.stop_replicas(
            StopReplica(3, 1, -1, {TopicPartition(name, 0): StopReplicaPartition(-2, True)})
        )

    def append(self, name: str, count: int = 1) -> None:
        partition = self.node.replicas.partitions[TopicPartition(name, 0)]
        partition.log.log_end_offset += count
        partition.log.set_high_watermark(partition.log.log_end_offset)
        partition.notify_watchers(appended=True)

    async def fetch(
        self, named: dict[bytes, int] | None = None, forgotten: tuple[bytes, ...] = (), wait_ms: int = 0, **more: Any
    ) -> dict[bytes, tuple[ErrorCode, int]]:
        """{id: (error, number of records)} of partition 0 of topics; `named` are offsets."""
        part = f.FetchPartition
        fields = {
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": [
                f.FetchTopic(topic_id=each, partitions=[part(partition=0, fetch_offset=offset, partition_max_bytes=99)])
                for each, offset in (named or {}).items()
            ],
            "forgotten_topics_data": [f.ForgottenTopic(topic_id=each, partitions=[0]) for each in forgotten],
            **more,
        }
        request = f.FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=10_000, **fields)
        response = await self.parts.ask(request, self.version)
        if response.error_code:
            raise AssertionError(ErrorCode(response.error_code).name)
        if "session_epoch" not in more:
            self.session_id, self.epoch = response.session_id, self.epoch + 1
        return {
            topic.topic_id: (ErrorCode(data.error_code), len(data.records or b""))
            for topic in response.responses
            for data in topic.partitions
        }


def make_fetches_large(patch: pytest.MonkeyPatch) -> None:
    """Have every fetch take the portions of one with very many partitions."""
    patch.setattr(fetch_handler, "AT_ONCE", -1)
    patch.setattr(fetch_handler, "_PIECE", 1)


@pytest.fixture(params=["a few partitions", "very many partitions"])
def play(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a scenario on a new broker, on both paths of fetches."""
    if request.param == "very many partitions":
        make_fetches_large(monkeypatch)

    def run(scenario: Callable[[Broker], Awaitable[None]]) -> None:
        async def act() -> None:
            await scenario(Broker())

        virtual_time.run(act())

    return run


A, B, C = id_of(1), id_of(2), id_of(3)


def test_a_partition_is_served_once_its_topic_id_is_known(play: Any) -> None:
    """It was told UNKNOWN_TOPIC_ID once and forgotten: a client names an unchanged partition no more, and waited for ever."""

    async def scenario(broker: Broker) -> None:
        await broker.make("a", A)
        assert await broker.fetch({A: 0, B: 0}) == {A: (NO, 0), B: (UNKNOWN_ID, 0)}
        for _ in range(2):
            assert await broker.fetch() == {B: (UNKNOWN_ID, 0)}, "in each fetch, as every error"
        await broker.make("b", B)
        broker.append("b", 3)
        assert await broker.fetch() == {B: (NO, 3)}
        assert await broker.fetch({B: 3}) == {}
        broker.append("b", 2)
        assert await broker.fetch() == {B: (NO, 2)}
        assert await broker.fetch(forgotten=(B,)) == {}
        broker.append("b", 2)
        assert await broker.fetch() == {}

    play(scenario)


def test_a_session_may_begin_with_nothing_that_is_known(play: Any) -> None:
    async def scenario(broker: Broker) -> None:
        assert await broker.fetch({B: 0}) == {B: (UNKNOWN_ID, 0)}
        assert broker.session_id
        await broker.hear("b", B)
        assert await broker.fetch() == {B: (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)}
        await broker.host("b", B)
        broker.append("b")
        assert await broker.fetch() == {B: (NO, 1)}

    play(scenario)


def test_a_partition_that_was_named_within_the_session_is_kept_likewise(play: Any) -> None:
    async def scenario(broker: Broker) -> None:
        await broker.make("a", A)
        await broker.fetch({A: 0})
        assert await broker.fetch({B: 0, C: 0}) == {B: (UNKNOWN_ID, 0), C: (UNKNOWN_ID, 0)}
        assert await broker.fetch(forgotten=(B,)) == {C: (UNKNOWN_ID, 0)}
        await broker.host("c", C)
        broker.append("c")
        assert await broker.fetch() == {C: (NO, 1)}
        assert broker.parts.fetch_sessions.partitions == 2

    play(scenario)


def test_a_topic_that_was_made_again_is_in_the_session_twice(play: Any) -> None:
    """As in Apache Kafka: until the client forgets the former topic, it is told that its id is another one's."""

    async def scenario(broker: Broker) -> None:
        await broker.make("t", A)
        broker.append("t")
        assert await broker.fetch({A: 0, B: 0}) == {A: (NO, 1), B: (UNKNOWN_ID, 0)}
        await broker.delete("t", A)
        assert await broker.fetch() == {A: (UNKNOWN, 0), B: (UNKNOWN_ID, 0)}
        await broker.make("t", B)
        broker.append("t", 2)
        assert await broker.fetch() == {A: (OTHER_ID, 0), B: (NO, 2)}
        assert await broker.fetch({B: 2, A: 0}) == {A: (OTHER_ID, 0)}
        assert await broker.fetch(forgotten=(A,)) == {}
        broker.append("t", 2)
        assert await broker.fetch() == {B: (NO, 2)}, "the other one's end was not that of the watch"
        assert await broker.fetch({A: 0}) == {A: (UNKNOWN_ID, 0), B: (NO, 2)}, "named again its id means nothing"

    play(scenario)


def test_both_ids_of_a_name_are_answered_without_a_session(play: Any) -> None:
    async def scenario(broker: Broker) -> None:
        await broker.make("t", A)
        broker.node.replicas.topic_ids[B] = "t"  # that of a topic which is only known by metadata yet
        broker.append("t")
        found = await broker.fetch({A: 0, B: 0}, session_id=0, session_epoch=-1)
        assert found == {A: (NO, 1), B: (OTHER_ID, 0)}

    play(scenario)


def test_an_id_of_zeros_is_nobodys(play: Any) -> None:
    async def scenario(broker: Broker) -> None:
        await broker.make("a", NO_TOPIC_ID)
        assert await broker.fetch({NO_TOPIC_ID: 0}) == {NO_TOPIC_ID: (UNKNOWN_ID, 0)}
        assert await broker.fetch() == {NO_TOPIC_ID: (UNKNOWN_ID, 0)}
        assert await broker.fetch({A: 0}, forgotten=(NO_TOPIC_ID,)) == {A: (UNKNOWN_ID, 0)}

    play(scenario)


def test_who_was_told_that_a_topic_is_unknown_waits_for_records(play: Any) -> None:
    """Its fetches would be answered at once, thousands of times a second, until the topic is known or the client hears that it is gone."""

    async def scenario(broker: Broker) -> None:
        loop = asyncio.get_running_loop()
        await broker.make("a", A)
        await broker.make("b", B)
        await broker.delete("b", B)
        before_s = loop.time()
        await broker.fetch({A: 0, B: 0, C: 0}, wait_ms=500)
        assert loop.time() == before_s, "it is news"
        assert await broker.fetch(wait_ms=500) == {B: (UNKNOWN_ID, 0), C: (UNKNOWN_ID, 0)}
        assert loop.time() - before_s == pytest.approx(0.5)
        loop.call_later(0.2, broker.append, "a")
        assert await broker.fetch(wait_ms=500) == {A: (NO, 1), B: (UNKNOWN_ID, 0), C: (UNKNOWN_ID, 0)}
        assert loop.time() - before_s == pytest.approx(0.7)

    play(scenario)


def test_an_id_that_becomes_known_while_a_fetch_waits_is_served_by_it(play: Any) -> None:
    async def scenario(broker: Broker) -> None:
        await broker.fetch({A: 0})
        waiting = asyncio.ensure_future(broker.fetch(wait_ms=500))
        await virtual_time.settle()
        await broker.make("a", A)
        broker.append("a")
        assert await waiting == {A: (NO, 1)}

    play(scenario)


def test_a_session_of_ids_does_not_go_on_by_name_nor_the_other_way(play: Any) -> None:
    async def scenario(broker: Broker) -> None:
        await broker.fetch({A: 0})
        broker.version = 12
        with pytest.raises(AssertionError, match="FETCH_SESSION_TOPIC_ID_ERROR"):
            await broker.fetch()
        broker.version, broker.session_id, broker.epoch = 12, 0, 0
        name = f.FetchTopic(topic="a", partitions=[f.FetchPartition(partition=0, partition_max_bytes=9)])
        await broker.parts.ask(f.FetchRequest(session_epoch=0, topics=[name]), 12)
        (session_id,) = [
            each.session_id for each in broker.parts.fetch_sessions.sessions.values() if not each.uses_topic_ids
        ]
        broker.version = 13
        with pytest.raises(AssertionError, match="FETCH_SESSION_TOPIC_ID_ERROR"):
            await broker.fetch(session_id=session_id, session_epoch=1)

    play(scenario)


def test_unknown_ids_count_against_the_bound_of_all_sessions(play: Any) -> None:
    """Anybody can name a million of them."""

    async def scenario(broker: Broker) -> None:
        sessions = broker.parts.fetch_sessions
        sessions._partitions_max = 100
        many = {id_of(number): 0 for number in range(101)}
        assert len(await broker.fetch(many)) == 101
        assert (broker.session_id, sessions.partitions) == (0, 0), "answered, and not remembered"
        broker.epoch = 0
        await broker.fetch({A: 0})
        with pytest.raises(AssertionError, match="FETCH_SESSION_ID_NOT_FOUND"):
            await broker.fetch(many)
        assert not sessions.sessions and not sessions.partitions
        assert not broker.node.replicas._watchers

    play(scenario)


# Histories


@dataclass
class Model:
    """What a broker and one session of it should be: topics are named "t" or "u", and made with ever new ids.

    `hosted`, `logs` and `known` (to metadata) have the ids of names; those of `former` are of topics that are gone.
    """

    hosted: dict[str, bytes] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    known: dict[str, bytes] = field(default_factory=dict)
    former: set[bytes] = field(default_factory=set)
    ends: dict[bytes, int] = field(default_factory=dict)
    session: dict[bytes, str | None] = field(default_factory=dict)
    offsets: dict[bytes, int] = field(default_factory=dict)

    def name_of(self, topic_id: bytes) -> str | None:
        both = [*self.hosted.items(), *self.known.items()]
        return next((name for name, known in both if known == topic_id), None)

    def host(self, name: str, topic_id: bytes) -> ErrorCode:
        """The answer to a LeaderAndIsr."""
        if topic_id in self.former:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self.logs.get(name, topic_id) != topic_id:
            self.hosted.pop(name, None)
            return OTHER_ID
        self.hosted[name] = self.logs[name] = topic_id
        self.ends.setdefault(topic_id, 0)
        return NO

    def hear(self, name: str, topic_id: bytes) -> None:
        """An UpdateMetadata."""
        if topic_id not in self.former and self.known.get(name) != topic_id:
            if name in self.known:
                self.former.add(self.known[name])
            if self.hosted.get(name, topic_id) != topic_id:
                del self.hosted[name]
            self.known[name] = topic_id

    def answer(self, topic_id: bytes) -> tuple[ErrorCode, int]:
        name = self.session[topic_id]
        if name is None:
            return UNKNOWN_ID, 0
        if name not in self.hosted:
            return (ErrorCode.NOT_LEADER_OR_FOLLOWER if name in self.known else UNKNOWN), 0
        if self.hosted[name] != topic_id:
            return OTHER_ID, 0
        behind = self.ends.get(topic_id, 0) - self.offsets[topic_id]
        return (ErrorCode.OFFSET_OUT_OF_RANGE, 0) if behind < 0 else (NO, behind)


NAMES = st.sampled_from(["t", "u"])
IDS = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["host", "hear", "delete", "forget metadata", "append"]), NAMES, IDS),
    st.tuples(st.just("fetch"), st.lists(IDS, max_size=3, unique=True), st.lists(IDS, max_size=2, unique=True)),
)


@pytest.mark.parametrize("is_large", [False, True])
@given(steps=st.lists(STEPS, max_size=30))
@settings(max_examples=100, deadline=None)
def test_sessions_go_as_a_model_of_them_goes(is_large: bool, steps: list[Any]) -> None:
    """Topics become known to the two tables of a broker in any order, are deleted and made again, while a session names and forgets ids."""

    async def scenario() -> None:
        broker, model = Broker(), Model()
        for step in steps:
            if step[0] == "fetch":
                await _fetch_and_compare(broker, model, [id_of(n) for n in step[1]], [id_of(n) for n in step[2]])
            else:
                await _change(broker, model, step[0], step[1], id_of(step[2]))
        await _fetch_and_compare(broker, model, [], [])

    with pytest.MonkeyPatch.context() as patch:
        if is_large:
            make_fetches_large(patch)
        virtual_time.run(scenario())


async def _change(broker: Broker, model: Model, kind: str, name: str, topic_id: bytes) -> None:
    other = next(each for each in ("t", "u") if each != name)
    if topic_id in (model.logs.get(other), model.known.get(other)) or (model.name_of(topic_id) or name) != name:
        return  # no two topics have one id
    match kind:
        case "host":
            assert await broker.host(name, topic_id) == model.host(name, topic_id)
        case "hear":
            await broker.hear(name, topic_id)
            model.hear(name, topic_id)
        case "forget metadata" if name in model.known:
            await broker.hear(name, model.known[name], is_deleted=True)
            model.former.add(model.known.pop(name))
        case "delete" if name in model.logs:
            told_id = model.known.pop(name, None) or model.logs[name]
            await broker.delete(name, told_id)
            model.former.add(told_id)
            model.ends.pop(model.logs.pop(name))
            model.hosted.pop(name, None)
        case "append" if name in model.hosted:
            broker.append(name)
            model.ends[model.hosted[name]] += 1
    in_the_way = {
        each for each in model.logs if str(TopicPartition(each, 0)) in broker.node.replicas.topic_id_conflicts.reasons()
    }
    assert in_the_way.isdisjoint(model.hosted)
    assert {
        each.topic: broker.node.replicas.partitions[each].topic_id for each in broker.node.replicas.partitions
    } == model.hosted


async def _fetch_and_compare(broker: Broker, model: Model, named: list[bytes], forgotten: list[bytes]) -> None:
    """Each partition's offset goes with the records it brings, as a consumer's does; a new one begins at 0."""
    if not broker.session_id:
        model.session.clear()
        model.offsets.clear()
        broker.epoch = 0
    gone = [each for each in forgotten if broker.session_id]
    for each in gone:
        model.session.pop(each, None)
        model.offsets.pop(each, None)
    moved = {each: model.ends.get(each, 0) for each in model.offsets if model.answer(each)[0] == NO and goes_on(each)}
    wanted = dict.fromkeys(named, 0) | moved
    if not wanted and not broker.session_id:
        return
    for each, offset in wanted.items():
        model.offsets[each] = offset
        model.session.setdefault(each, None)
    found = await broker.fetch(wanted, tuple(gone))
    for each in model.session:
        model.session[each] = model.session[each] or model.name_of(each)
    answers = {each: model.answer(each) for each in model.session}
    expected = {each: answer for each, answer in answers.items() if answer != (NO, 0)}
    assert {each: answer for each, answer in found.items() if answer != (NO, 0)} == expected


def goes_on(topic_id: bytes) -> bool:
    """True for half of the consumers, which ask for what is behind the records that they have got."""
    return topic_id[-1] % 2 == 0
