"""The loop of a follower that fetches from a leader and appends (`leader_fetcher`)."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import pytest

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import Endpoint, TopicPartition
from tests.unit.broker.fake_log import TP, FakeLog, assignment, make_partition
from tests.unit.broker.replication.scripted_leader import FakeLeader, Following, partition_answer, run


def test_an_idle_partition_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(following: Following) -> None:
        following.follow(FakeLog(log_end_offset=4, epochs=[(0, 0)]))
        await asyncio.sleep(2.2)

    first, *later = run(monkeypatch, lambda request: None, act).leader.requests
    (topic,) = first.topics
    (asked,) = topic.partitions
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (4, 0, 1)
    assert (first.session_id, first.session_epoch, first.replica_state.replica_id) == (0, 0, 1)
    assert [(each.session_id, each.session_epoch, each.topics) for each in later] == [(5, n + 1, []) for n in range(8)]


def test_a_diverging_epoch_cuts_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = FakeLog(log_end_offset=20, epochs=[(1, 0), (3, 8)])
    diverging = messages.fetch_response.EpochEndOffset(epoch=1, end_offset=6)

    async def act(following: Following) -> None:
        following.follow(log, leader_epoch=4)
        await asyncio.sleep(0.1)

    answers = iter([partition_answer(diverging_epoch=diverging)])
    following = run(monkeypatch, lambda request: next(answers, None), act)
    assert log.log_end_offset == 6
    assert following.leader.requests[1].topics[0].partitions[0].fetch_offset == 6


def test_a_follower_that_was_killed_brought_back_what_its_leader_had_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its start is written before the next fetch tells the leader of it, which takes that for having followed and answers DeleteRecords."""

    async def act(following: Following) -> None:
        following.follow(FakeLog(log_end_offset=20, epochs=[(0, 0)]))
        await asyncio.sleep(0.1)

    answers = iter([partition_answer(log_start_offset=7), partition_answer(log_start_offset=7)])
    following = run(monkeypatch, lambda request: next(answers, None), act)
    assert following.noted == [(7, 1)]
    assert following.leader.requests[1].topics[0].partitions[0].log_start_offset == 7


def test_a_partition_with_an_error_is_left_out_while_it_backs_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left in the session it would have every fetch answered at once, thousands of times a second."""

    def answer(request: Any) -> Any:
        return partition_answer(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) if request.topics else None

    async def act(following: Following) -> None:
        following.follow(FakeLog(epochs=[(0, 0)]))
        await asyncio.sleep(10)

    requests = run(monkeypatch, answer, act).leader.requests
    assert 10 <= len(requests) <= 40
    named = [each for each in requests if each.topics]
    assert len(named) <= 20


def test_with_other_partitions_a_failing_one_is_forgotten_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    other = TopicPartition("t", 1)
    state = {"errors": 1}

    def answer(request: Any) -> Any:
        if request.topics and state["errors"]:
            state["errors"] -= 1
            return partition_answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return None

    async def act(following: Following) -> None:
        following.follow(FakeLog(epochs=[(0, 0)]))
        partition = make_partition(FakeLog(epochs=[(0, 0)]), topic_partition=other)
        partition.become_follower(assignment(leader=2, leader_epoch=1))
        following.fetchers.follow(partition, partition.topic_id)
        await asyncio.sleep(3)

    requests = run(monkeypatch, answer, act).leader.requests
    assert [p.partition for t in requests[0].topics for p in t.partitions] == [0, 1]
    assert [index for t in requests[1].forgotten_topics_data for index in t.partitions] == [0]
    assert [p.partition for each in requests[2:4] for t in each.topics for p in t.partitions] == [0]


@pytest.mark.parametrize("how", ["no endpoint", "refused"])
def test_a_leader_that_is_gone_is_tried_at_intervals(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Also right after a connection was renewed on purpose: without a pause the loop would never come to rest."""

    async def act(following: Following) -> None:
        following.follow(FakeLog(epochs=[(0, 0)]))
        await asyncio.sleep(2)
        follow_other(following, 1)  # closes the long poll, to fetch again
        following.endpoint = None if how == "no endpoint" else following.endpoint
        following.leader.is_down = True
        await asyncio.sleep(10)
        assert 1 <= following.leader.opened <= 25
        following.leader.is_down = False
        following.endpoint = Endpoint("L", "h", 1)
        before = len(following.leader.requests)
        await asyncio.sleep(1.5)
        assert len(following.leader.requests) > before

    run(monkeypatch, lambda request: None, act)


def test_a_new_partition_does_not_wait_for_the_long_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(following: Following) -> None:
        following.follow(FakeLog(epochs=[(0, 0)]))
        await asyncio.sleep(2)
        follow_other(following, 1)
        await asyncio.sleep(0.01)
        assert [p.partition for t in following.leader.requests[-1].topics for p in t.partitions] == [0, 1]

    run(monkeypatch, lambda request: None, act)


def follow_other(following: Following, index: int) -> None:
    partition = make_partition(FakeLog(epochs=[(0, 0)]), topic_partition=TopicPartition("t", index))
    partition.become_follower(assignment(leader=2, leader_epoch=1))
    following.fetchers.follow(partition, partition.topic_id)


def test_an_election_of_thousands_restarted_the_session_for_each_fifty_milliseconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each time all partitions were named again, so that a broker did little else while roles changed."""
    named: list[int] = []

    async def act(following: Following) -> None:
        following.follow(FakeLog(epochs=[(0, 0)]))
        await asyncio.sleep(2)
        for index in range(1, 101):
            follow_other(following, index)
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.03)
        named.extend(p.partition for each in following.leader.requests for t in each.topics for p in t.partitions)
        assert following.leader.opened == 2, "the long poll before the election was given up"

    run(monkeypatch, lambda request: None, act)
    assert set(named) == set(range(101)) and len(named) < 110


def test_a_new_partition_in_a_session_of_thousands_waits_for_the_long_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(following: Following) -> None:
        for index in range(10_000):
            follow_other(following, index)
        await asyncio.sleep(2.01)
        follow_other(following, 10_000)
        await asyncio.sleep(0.5)
        assert following.leader.opened == 1
        assert [p.partition for t in following.leader.requests[-1].topics for p in t.partitions] == [10_000]

    run(monkeypatch, lambda request: None, act)


def test_an_answer_about_the_past_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """1. A fetch is on its way. 2. The partition is stopped and followed again. 3. The answer to 1 comes."""
    log = FakeLog(log_end_offset=9, high_watermark=0, epochs=[(0, 0)])

    async def act(following: Following) -> None:
        held = asyncio.get_running_loop().create_future()
        following.leader.answer = lambda request: held if len(following.leader.requests) == 1 else None
        partition = following.follow(log)
        await asyncio.sleep(0.01)
        following.fetchers.stop([TP])
        partition.become_follower(assignment(leader=2, leader_epoch=2, partition_epoch=1))
        held.set_result(partition_answer(high_watermark=7))
        following.fetchers.follow(partition, log.topic_id)
        await asyncio.sleep(0.01)
        assert log.high_watermark == 0

    run(monkeypatch, lambda request: None, act)


def test_a_log_is_not_cut_once_this_broker_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """1. Our offset is out of range. 2. We ask where the leader ends. 3. We become leader. 4. The answer comes."""
    log = FakeLog(log_end_offset=9, epochs=[(0, 0)])
    r = messages.list_offsets_response

    async def act(following: Following) -> None:
        held = asyncio.get_running_loop().create_future()

        def answer(request: Any) -> Any:
            if isinstance(request, messages.list_offsets_request.ListOffsetsRequest):
                return held
            return partition_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE) if request.topics else None

        following.leader.answer = answer
        partition = following.follow(log)
        await asyncio.sleep(0.1)
        following.fetchers.stop([TP])
        partition.become_leader(assignment(leader_epoch=2, partition_epoch=1), 0.0)
        found = r.ListOffsetsPartitionResponse(offset=3)
        held.set_result(r.ListOffsetsResponse(topics=[r.ListOffsetsTopicResponse(name="t", partitions=[found])]))
        await asyncio.sleep(1)
        assert log.log_end_offset == 9

    run(monkeypatch, lambda request: None, act)


def test_a_log_that_is_longer_than_the_leaders_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    log = FakeLog(log_end_offset=9, epochs=[(0, 0)])
    r = messages.list_offsets_response

    def answer(request: Any) -> Any:
        if isinstance(request, messages.list_offsets_request.ListOffsetsRequest):
            found = r.ListOffsetsPartitionResponse(offset=3)
            return r.ListOffsetsResponse(topics=[r.ListOffsetsTopicResponse(name="t", partitions=[found])])
        too_long = request.topics and request.topics[0].partitions[0].fetch_offset > 3
        return partition_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE) if too_long else None

    async def act(following: Following) -> None:
        following.follow(log)
        await asyncio.sleep(1)
        assert log.log_end_offset == 3
        assert following.leader.requests[-1].topics or len(following.leader.requests) > 3

    run(monkeypatch, answer, act)


def test_where_the_leader_has_a_format_without_epochs_the_high_watermark_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = TopicConfig(message_format_acts=True)
    log = FakeLog(config, log_end_offset=9, high_watermark=7, epochs=[(0, 0)])
    r = messages.list_offsets_response

    def answer(request: Any) -> Any:
        if isinstance(request, messages.list_offsets_request.ListOffsetsRequest):
            asked = request.topics[0].partitions[0].timestamp
            found = r.ListOffsetsPartitionResponse(offset=0 if asked == -2 else 12)
            return r.ListOffsetsResponse(topics=[r.ListOffsetsTopicResponse(name="t", partitions=[found])])
        refused = request.topics and request.topics[0].partitions[0].last_fetched_epoch >= 0
        return partition_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE) if refused else None

    async def act(following: Following) -> None:
        following.follow(log)
        await asyncio.sleep(1)
        assert (log.log_end_offset, log.epochs) == (7, [])
        assert following.leader.requests[-1].topics or len(following.leader.requests) > 3

    run(monkeypatch, answer, act)


@pytest.mark.parametrize("offset", [9, -1, None])
def test_a_leader_that_calls_its_own_offsets_out_of_range_is_asked_at_intervals(
    monkeypatch: pytest.MonkeyPatch, offset: int | None
) -> None:
    log = FakeLog(log_end_offset=9, epochs=[(0, 0)])
    r = messages.list_offsets_response

    def answer(request: Any) -> Any:
        if isinstance(request, messages.list_offsets_request.ListOffsetsRequest):
            asked = request.topics[0].partitions[0].timestamp
            found = r.ListOffsetsPartitionResponse(offset=0 if asked == -2 else offset or 0)
            told = [r.ListOffsetsTopicResponse(name="t", partitions=[found])] if offset is not None else []
            return r.ListOffsetsResponse(topics=told)
        return partition_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE) if request.topics else None

    async def act(following: Following) -> None:
        following.follow(log)
        await asyncio.sleep(10)
        assert log.log_end_offset == 9, "an answer that is no offset cuts nothing"
        assert len(following.leader.requests) < 120

    run(monkeypatch, answer, act)


def test_a_leader_that_answers_nothing_at_once_is_asked_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(following: Following) -> None:
        following.follow(FakeLog(epochs=[(0, 0)]))
        await asyncio.sleep(10)
        assert len(following.leader.requests) < 400

    run(monkeypatch, lambda request: messages.fetch_response.FetchResponse(session_id=5), act)


def test_a_follower_of_thousands_took_answers_without_records_for_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader reads so many for each answer and leaves the others to the next fetch. The session began again, and with it all reads."""
    waiting_answers = [messages.fetch_response.FetchResponse(session_id=5) for _ in range(15)]

    async def act(following: Following) -> None:
        for index in range(3000):
            follow_other(following, index)
        await asyncio.sleep(1)
        assert not waiting_answers
        assert following.leader.opened == 1
        assert sum(request.session_epoch == 0 for request in following.leader.requests) == 1

    run(monkeypatch, lambda request: waiting_answers.pop() if waiting_answers else None, act)


def test_an_error_that_only_newer_brokers_know_concerns_its_partition_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(following: Following) -> None:
        following.follow(FakeLog(epochs=[(0, 0)]))
        await asyncio.sleep(5)
        assert following.leader.opened == 1, "the connection is kept"
        assert len(following.leader.requests) < 40

    run(monkeypatch, lambda request: partition_answer(error_code=999) if request.topics else None, act)


def test_an_epoch_that_is_over_ends_the_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(following: Following) -> None:
        following.follow(FakeLog(epochs=[(0, 0)]))
        await asyncio.sleep(5)
        assert len(following.leader.requests) == 1

    run(monkeypatch, lambda request: partition_answer(error_code=ErrorCode.FENCED_LEADER_EPOCH), act)


@pytest.mark.parametrize(("partitions", "lines"), [(2, 2), (100, 1)])
def test_an_election_of_thousands_logged_a_line_for_each_epoch_that_was_over(
    partitions: int, lines: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(following: Following) -> None:
        for index in range(partitions):
            follow_other(following, index)
        with caplog.at_level(logging.INFO, "kafkalite.broker.replication.leader_fetcher"):
            await asyncio.sleep(1)

    def answer(request: Any) -> Any:
        data, code = messages.fetch_response.PartitionData, ErrorCode.FENCED_LEADER_EPOCH
        response = partition_answer()
        response.responses[0].partitions = [data(partition_index=i, error_code=code) for i in range(partitions)]
        return response

    run(monkeypatch, answer, act)
    assert len(caplog.messages) == lines and all("over" in each for each in caplog.messages)


@pytest.mark.parametrize(("newest", "checked"), [(17, None), (8, 4)])
def test_records_of_an_epoch_not_heard_of_yet_are_refused_unless_the_leader_has_confirmed_ours(
    monkeypatch: pytest.MonkeyPatch, newest: int, checked: int | None
) -> None:
    """Taken before the log was truncated, they hid that replicas differed (seed 304500 of the lies)."""
    log = FakeLog(failures=[KafkaError(ErrorCode.FENCED_LEADER_EPOCH)] * 100)

    async def scenario() -> FakeLeader:
        answer = partition_answer(records=b"later")
        following = Following(monkeypatch, lambda request: answer if request.topics else None, "2.1-IV1")
        following.leader.spoken[ApiKey.FETCH] = (0, newest)
        following.follow(log, leader_epoch=4)
        await asyncio.sleep(5)
        await following.fetchers.close()
        return following.leader

    assert len(virtual_time.run(scenario()).requests) < 40
    assert log.log_end_offset == 0
    assert log.followed_epochs[0] == checked


@pytest.mark.parametrize(("log_end_offset", "cuts"), [(0, []), (4, []), (6, [4])])
def test_following_notes_no_idle_log_as_changed(
    monkeypatch: pytest.MonkeyPatch, log_end_offset: int, cuts: list[int]
) -> None:
    """A log without epochs is cut at its high watermark, and whatever is cut is looked at by all jobs of its store."""
    cut: list[int] = []
    monkeypatch.setattr(FakeLog, "truncate_to", lambda log, offset: cut.append(offset))

    async def act(following: Following) -> None:
        following.follow(FakeLog(log_end_offset=log_end_offset, high_watermark=min(log_end_offset, 4)))
        await asyncio.sleep(1)

    run(monkeypatch, lambda request: None, act)
    assert cut == cuts


@pytest.mark.parametrize(("newest", "asked"), [(17, 10), (8, 8)])
def test_a_follower_names_its_epoch_wherever_the_leader_reads_it(
    monkeypatch: pytest.MonkeyPatch, newest: int, asked: int
) -> None:
    """A leader that led again took a follower of an earlier epoch for one in sync (seed 305078 of the lies)."""

    async def scenario() -> FakeLeader:
        following = Following(monkeypatch, lambda request: None, "2.1-IV1")
        following.leader.spoken[ApiKey.FETCH] = (0, newest)
        following.follow(FakeLog())
        await asyncio.sleep(1)
        await following.fetchers.close()
        return following.leader

    assert virtual_time.run(scenario()).versions[0] == asked


def test_a_broker_that_is_about_to_stop_begins_to_follow_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new leader would take it for a replica that is about to join the ISR, and wait for it."""

    async def act(following: Following) -> None:
        following.fetchers.refuse_partitions()
        following.follow(FakeLog(epochs=[(0, 0)]))
        await asyncio.sleep(1)

    assert run(monkeypatch, lambda request: None, act).leader.requests == []


@pytest.mark.parametrize(
    ("code", "at_least", "at_most"),
    [(ErrorCode.UNKNOWN_SERVER_ERROR, 3, 15), (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 2, 2)],
)
def test_a_leader_that_refuses_whole_fetches_is_asked_at_intervals(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, at_least: int, at_most: int
) -> None:
    """A leader with a defect got thousands of fetches a second; a session that is over is renewed at once."""
    session_is_over = code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    times = itertools.count()

    def answer(request: Any) -> Any:
        if session_is_over and next(times):
            return asyncio.get_running_loop().create_future()
        return messages.fetch_response.FetchResponse(error_code=code)

    async def act(following: Following) -> None:
        following.follow(FakeLog(epochs=[(0, 0)]))
        await asyncio.sleep(3)

    requests = run(monkeypatch, answer, act).leader.requests
    assert at_least <= len(requests) <= at_most
    assert all(request.session_epoch == 0 for request in requests)


@pytest.mark.parametrize("is_offline", [False, True])
def test_a_follower_gave_up_when_its_disk_was_full_for_a_moment(
    monkeypatch: pytest.MonkeyPatch, is_offline: bool
) -> None:
    """It was out of sync until its broker was started again. A directory that is offline is given up indeed."""
    log = FakeLog(epochs=[(0, 0)], failures=[KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")])
    log.log_directory.offline_reason = "it is broken" if is_offline else None

    def answer(request: Any) -> Any:
        return partition_answer(records=b"1234") if request.topics and log.log_end_offset == 0 else None

    async def act(following: Following) -> None:
        following.follow(log)
        await asyncio.sleep(10)

    run(monkeypatch, answer, act)
    assert log.log_end_offset == (0 if is_offline else 4)
