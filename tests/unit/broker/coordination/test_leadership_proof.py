"""When a broker doubts that it leads, and what proves that it does. What a client sees of it is a transcript of the simulation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.broker.coordination import replica_questions
from kafkalite.broker.coordination.replica_questions import UNUSED_S, _Question
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import BrokerId, Endpoint, TopicPartition
from tests.unit.broker.coordination.asked_replicas import (
    PARTITION,
    SECOND_PARTITION,
    TIMEOUT_MS,
    Answer,
    Doubted,
    Replicas,
)
from tests.unit.broker.fake_log import assignment, make_partition
from tests.unit.broker.memory_parts import MemoryParts, know
from zk.store import SessionState


def test_a_session_that_lives_is_not_doubted() -> None:
    doubted = Doubted()
    assert not doubted.doubt.holds()
    assert not doubted.after(TIMEOUT_MS)


@pytest.mark.parametrize("lost", [SessionState.SUSPENDED, SessionState.EXPIRED])
def test_a_lost_connection_is_doubted_until_a_controller_had_time_to_say_who_leads(lost: SessionState) -> None:
    doubted = Doubted()
    doubted.store.enter(lost)
    assert doubted.doubt.holds() and doubted.after(10 * TIMEOUT_MS)
    doubted.store.enter(SessionState.CONNECTED)
    assert doubted.after(0.9 * TIMEOUT_MS)
    assert not doubted.after(0.2 * TIMEOUT_MS)


def test_a_process_that_was_paused_doubts_before_it_hears_of_anything() -> None:
    doubted = Doubted()
    doubted.time.at_ms += 0.6 * TIMEOUT_MS
    assert doubted.doubt.holds()
    assert doubted.after(0.9 * TIMEOUT_MS)
    assert not doubted.after(0.2 * TIMEOUT_MS)


FOLLOWS = (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
LEADS_LATER = (ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH)
FOLLOWS_LATER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
FOLLOWED_BEFORE = (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)
HOSTS_NOTHING_YET = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER)
KNOWS_NOTHING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
HAS_LOST_A_DISK = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR)
TOOK_OVER_MEANWHILE = (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH)


@pytest.mark.parametrize(
    ("answers", "proven"),
    [
        ({}, True),
        ({2: FOLLOWS, 3: FOLLOWS}, True),
        *(({2: FOLLOWS, 3: each}, False) for each in (LEADS_LATER, FOLLOWS_LATER, FOLLOWED_BEFORE, HOSTS_NOTHING_YET)),
        *(({2: each}, False) for each in (KNOWS_NOTHING, HAS_LOST_A_DISK, TOOK_OVER_MEANWHILE)),
        ({2: FOLLOWS, 3: ConnectionError("closed")}, False),
        ({2: TimeoutError("silent"), 3: FOLLOWS}, False),
    ],
)
def test_every_member_of_the_isr_has_to_follow(answers: dict[BrokerId, Answer], proven: bool) -> None:
    async def main() -> None:
        replicas = Replicas(answers)
        assert await replicas.proof.seek(PARTITION) is proven
        assert all(epochs == [8, 7] for _, epochs in replicas.asked)

    virtual_time.run(main())


@pytest.mark.parametrize(
    ("leader", "leader_epoch", "answer"),
    [
        (2, 7, FOLLOWS),
        (1, 8, LEADS_LATER),
        (3, 8, FOLLOWS_LATER),
        (3, 6, FOLLOWED_BEFORE),
        (None, 0, HOSTS_NOTHING_YET),
    ],
)
def test_a_replica_that_hosts_nothing_yet_was_taken_for_a_follower(
    leader: BrokerId | None, leader_epoch: int, answer: Answer
) -> None:
    """What broker 1 says of itself to the leader of epoch 7."""

    async def main() -> None:
        parts = MemoryParts()
        if leader is not None:
            partition = make_partition(topic_partition=PARTITION)
            state = assignment(leader, leader_epoch)
            if leader == 1:
                partition.become_leader(state, 0.0)
            else:
                partition.become_follower(state)
            parts = MemoryParts(partition)
        know(parts.metadata, PARTITION)
        question = Replicas({}).questions._make_request([(PARTITION, 7)], (1, 0))
        response = await parts.ask(question, 4)
        assert tuple(told.error_code for told in response.topics[0].partitions) == answer

    virtual_time.run(main())


def test_who_leads_nothing_proves_nothing() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS})
        assert not await replicas.proof.seek(TopicPartition("__consumer_offsets", 4))
        replicas.partition.is_leader = False
        assert not await replicas.proof.seek(PARTITION)
        assert not replicas.asked

    virtual_time.run(main())


def test_a_leader_that_is_deposed_meanwhile_proves_nothing() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS})
        sought = replicas.proof.seek(PARTITION)
        await asyncio.sleep(0.005)
        replicas.partition.leader_epoch = 8
        assert not await sought

    virtual_time.run(main())


def test_those_who_come_while_one_proof_is_sought_share_the_next() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS})
        first = replicas.proof.seek(PARTITION)
        await asyncio.sleep(0.005)
        late = [replicas.proof.seek(PARTITION) for _ in range(1000)]
        assert await first
        assert not any(each.done() for each in late)
        assert all(await asyncio.gather(*late))
        assert len(replicas.asked) == 2

    virtual_time.run(main())


def test_replicas_are_asked_only_in_doubt_as_long_as_sessions_end_by_themselves() -> None:
    replicas = Replicas({2: FOLLOWS})
    assert not replicas.proof.is_needed
    replicas.lose_connection_to_zookeeper()
    assert replicas.proof.is_needed


def test_replicas_are_asked_always_where_peers_end_sessions() -> None:
    assert Replicas({2: FOLLOWS}, ends_early=True).proof.is_needed


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("code", "proven"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.NONE, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (ErrorCode.KAFKA_STORAGE_ERROR, False),
    ],
)
def test_replicas_that_know_no_epochs_have_to_say_that_they_do_not_lead(
    version: int, code: ErrorCode, proven: bool
) -> None:
    """Apache Kafka 1.1 and 2.0."""

    async def main() -> None:
        replicas = Replicas({2: (code, code)}, version, ends_early=True)
        assert replicas.proof.is_needed
        assert await replicas.proof.seek(PARTITION) is proven

    virtual_time.run(main())


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("leader", [-1, 2, 3])
def test_replicas_that_know_no_epochs_have_to_say_who_leads(version: int, leader: int) -> None:
    """One that led meanwhile does not lead either, and knows another leader."""

    async def main() -> None:
        replicas = Replicas({2: HOSTS_NOTHING_YET}, version)
        replicas.leader_by_metadata = leader
        assert not await replicas.proof.seek(PARTITION)
        replicas.leader_by_metadata = 1
        assert await replicas.proof.seek(PARTITION)

    virtual_time.run(main())


@pytest.mark.parametrize("version", [2, 3])
def test_replicas_that_answer_once_for_each_partition_are_asked_twice(version: int) -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS}, version)
        assert all(await asyncio.gather(*(replicas.proof.seek(each) for each in (PARTITION, SECOND_PARTITION))))
        assert replicas.asked == [("2", [8, 8]), ("2", [7, 7])]
        assert len(replicas.connections) == 1

    virtual_time.run(main())


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "answer",
    [
        LEADS_LATER,
        FOLLOWS_LATER,
        FOLLOWED_BEFORE,
        HOSTS_NOTHING_YET,
        KNOWS_NOTHING,
        HAS_LOST_A_DISK,
        TOOK_OVER_MEANWHILE,
    ],
)
def test_one_of_two_answers_proves_nothing(version: int, answer: Answer) -> None:
    async def main() -> None:
        replicas = Replicas({2: answer}, version)
        assert not await replicas.proof.seek(PARTITION)

    virtual_time.run(main())


@pytest.mark.parametrize("version", [2, 3])
def test_two_questions_that_collapse_into_one_answer_prove_nothing(version: int) -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS}, version)
        connection = await replicas.connect(Endpoint("PLAINTEXT", "2", 9092), "", 1.0)
        request = replicas.questions._make_request([_Question(PARTITION, 7)], (1, 0))
        response = await connection.send(request, version)
        assert [told.error_code for told in response.topics[0].partitions] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(replica_questions, "_epochs_of_requests", lambda version: [(1, 0)])
            assert not await replicas.proof.seek(PARTITION)

    virtual_time.run(main())


def test_what_nobody_expects_proves_nothing_and_the_next_one_asks_again() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS})
        connect, replicas.questions._connect = replicas.questions._connect, None  # type: ignore[assignment]
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        assert not await replicas.proof.seek(PARTITION)
        assert len(problems) == 1
        replicas.questions._connect = connect
        assert await replicas.proof.seek(PARTITION)

    virtual_time.run(main())


def test_one_connection_to_each_replica_serves_all_questions() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS, 3: FOLLOWS})
        for _ in range(5):
            assert await replicas.proof.seek(PARTITION)
        assert len(replicas.connections) == 2
        assert not any(each.closed for each in replicas.connections)

    virtual_time.run(main())


def test_partitions_that_wait_in_the_same_turn_are_asked_about_in_one_request() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS})
        assert all(await asyncio.gather(*(replicas.proof.seek(each) for each in (PARTITION, SECOND_PARTITION))))
        assert replicas.asked == [("2", [8, 7, 8, 7])]

    virtual_time.run(main())


def test_partitions_that_are_sought_while_a_request_is_in_flight_share_the_next() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS})
        first = replicas.questions.ask(2, PARTITION, 7)
        await asyncio.sleep(0.005)
        late = [replicas.questions.ask(2, TopicPartition(PARTITION.topic, index), 7) for index in range(20)]
        assert all(await asyncio.gather(first, *late))
        assert [len(epochs) for _, epochs in replicas.asked] == [2, 40]

    virtual_time.run(main())


def test_each_partition_has_its_own_answer() -> None:
    async def main() -> None:
        replicas = Replicas({2: (*FOLLOWS, *FOLLOWS_LATER)})  # type: ignore[dict-item]
        confirmed = (replicas.questions.ask(2, each, 7) for each in (PARTITION, SECOND_PARTITION))
        assert await asyncio.gather(*confirmed) == [True, False]

    virtual_time.run(main())


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_a_partition_is_not_confirmed_in_two_epochs_at_once(version: int) -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS if version >= 2 else HOSTS_NOTHING_YET}, version)
        confirmed = (replicas.questions.ask(2, PARTITION, epoch) for epoch in (7, 8))
        assert await asyncio.gather(*confirmed) == [False, True]

    virtual_time.run(main())


def test_a_connection_that_ended_is_opened_again() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS})
        assert await replicas.proof.seek(PARTITION)
        replicas.connections[0].close()
        assert await replicas.proof.seek(PARTITION)
        assert len(replicas.connections) == 2

    virtual_time.run(main())


def test_a_connection_that_did_not_answer_in_time_is_not_used_again() -> None:
    async def main() -> None:
        replicas = Replicas({2: TimeoutError("silent")})
        began_s = asyncio.get_running_loop().time()
        assert not await replicas.proof.seek(PARTITION)
        assert asyncio.get_running_loop().time() - began_s <= 1.1
        assert replicas.connections[0].closed
        replicas.answers[2] = FOLLOWS
        assert await replicas.proof.seek(PARTITION)

    virtual_time.run(main())


def test_a_replica_that_moved_is_asked_at_its_new_address() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS})
        assert await replicas.proof.seek(PARTITION)
        replicas.port = 9093
        assert await replicas.proof.seek(PARTITION)
        assert [each.closed for each in replicas.connections] == [True, False]

    virtual_time.run(main())


def test_connections_to_brokers_that_left_or_are_not_asked_any_more_are_closed() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS, 3: FOLLOWS})
        assert await replicas.proof.seek(PARTITION)
        await asyncio.sleep(0.9 * UNUSED_S)
        assert await replicas.questions.ask(2, PARTITION, 7)
        await asyncio.sleep(0.2 * UNUSED_S)
        del replicas.answers[2]
        assert not await replicas.questions.ask(2, PARTITION, 7)
        assert all(each.closed for each in replicas.connections)

    virtual_time.run(main())


def test_a_used_connection_stays_open() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS})
        for _ in range(4):
            assert await replicas.proof.seek(PARTITION)
            await asyncio.sleep(0.6 * UNUSED_S)
        assert len(replicas.connections) == 1
        await asyncio.sleep(0.5 * UNUSED_S)
        assert replicas.connections[0].closed

    virtual_time.run(main())


def test_connections_are_closed_at_shutdown() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS, 3: FOLLOWS})
        assert await replicas.proof.seek(PARTITION)
        replicas.proof.close()
        assert all(each.closed for each in replicas.connections)

    virtual_time.run(main())


def test_an_answer_from_memory_waits_for_a_proof_and_one_that_was_appended_does_not() -> None:
    async def main() -> None:
        replicas = Replicas({2: FOLLOWS})
        assert replicas.proof.confirm(PARTITION, "at once") == "at once"
        replicas.lose_connection_to_zookeeper()
        appended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        assert replicas.proof.confirm(PARTITION, appended) is appended
        confirmed = replicas.proof.confirm(PARTITION, "proven")
        assert isinstance(confirmed, asyncio.Future) and await confirmed == "proven"
        replicas.answers[2] = FOLLOWS_LATER
        refused = replicas.proof.confirm(PARTITION, "old")
        assert isinstance(refused, asyncio.Future)
        with pytest.raises(KafkaError) as problem:
            await refused
        assert problem.value.code is ErrorCode.NOT_COORDINATOR

    virtual_time.run(main())
