"""What a follower fetches and what an answer means, decided without a connection or a loop (transcripts of requests and answers)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.broker.replication import fetch_states
from kafkalite.broker.replication.fetch_states import (
    APPEND,
    BACK_OFF,
    DROP,
    FIND_RANGE,
    TRUNCATE,
    FetchStates,
    PartitionFetchState,
    Step,
    decide_step,
)
from kafkalite.broker.settings.rates import ReplicationRate
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import NO_TOPIC_ID, TopicPartition
from tests.unit.broker.fake_log import FakeLog, assignment, make_partition

TOPIC_ID = bytes(range(16))
CONFIG = BrokerConfig.from_properties({"broker.id": "1", "zookeeper.connect": "unused", "log.dirs": "unused"})
r = messages.fetch_response


def partition_data(error: ErrorCode | int = ErrorCode.NONE, **fields: Any) -> messages.fetch_response.PartitionData:
    return r.PartitionData(**{"error_code": error, "high_watermark": 0, "records": b"", **fields})


@pytest.mark.parametrize(
    ("data", "step"),
    [
        (partition_data(), APPEND),
        (partition_data(records=b"abc"), APPEND),
        (partition_data(diverging_epoch=r.EpochEndOffset(epoch=1, end_offset=6)), TRUNCATE),
        (partition_data(diverging_epoch=r.EpochEndOffset()), APPEND),  # -1: the default of the field
        (partition_data(ErrorCode.OFFSET_OUT_OF_RANGE), FIND_RANGE),
        (partition_data(ErrorCode.FENCED_LEADER_EPOCH), DROP),
        (partition_data(ErrorCode.NOT_LEADER_OR_FOLLOWER), BACK_OFF),
        (partition_data(ErrorCode.UNKNOWN_LEADER_EPOCH), BACK_OFF),
        (partition_data(ErrorCode.KAFKA_STORAGE_ERROR), BACK_OFF),
        (partition_data(999), BACK_OFF),
    ],
)
def test_what_an_answer_means(data: messages.fetch_response.PartitionData, step: Step) -> None:
    assert decide_step(data) is step


class Follower:
    """Fetches of broker 1 from one leader; time is what the test says."""

    def __init__(self) -> None:
        self.throttled_bytes_per_s = 1e18
        self.rate = ReplicationRate(11, 1000, lambda: self.throttled_bytes_per_s)
        self.states = FetchStates(1, self.rate)
        self.now_ms = 0.0

    def follow(self, index: int = 0, topic_id: bytes = TOPIC_ID, end: int = 0, **more: Any) -> PartitionFetchState:
        log = FakeLog(log_end_offset=end, epochs=[(3, 0)], config=more.pop("config", TopicConfig()))
        partition = make_partition(log, topic_partition=TopicPartition("t", index))
        partition.become_follower(assignment(leader=2, leader_epoch=4))
        state = PartitionFetchState(partition, topic_id, 4, **more)
        self.states.add(state, self.now_ms)
        return state

    def next_try_ms(self, state: PartitionFetchState) -> float:
        return self.states._retries.due_ms(state.partition.topic_partition)

    def request(self, newest: int = 15) -> tuple[dict[int, int], list[int], int] | None:
        """Return {partition: fetch offset}, the partitions that leave the session, and its epoch; None without a request."""
        request, _ = self.states.make_request(self.states.choose_version(newest), self.now_ms, CONFIG, 9)
        if request is None:
            return None
        named = {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}
        forgotten = [index for topic in request.forgotten_topics_data for index in topic.partitions]
        return named, forgotten, request.session_epoch

    def answer(
        self, index: int, topic_id: bytes = TOPIC_ID, error: ErrorCode = ErrorCode.NONE
    ) -> list[PartitionFetchState]:
        """Return the states that an answer about the partition is for."""
        topic = r.FetchableTopicResponse(topic_id=topic_id, partitions=[partition_data(error)])
        topic.partitions[0].partition_index = index
        matched = list(self.states.match_answers(r.FetchResponse(session_id=5, responses=[topic]), 15))
        self.states.complete_fetch(5)
        return [state for state, _ in matched]


def test_an_idle_partition_is_named_once() -> None:
    follower = Follower()
    state = follower.follow(end=7)
    assert follower.request() == ({0: 7}, [], 0)
    assert follower.answer(0) == [state]
    assert follower.request() == ({}, [], 1)
    follower.states.changed[TopicPartition("t", 0)] = None
    assert follower.request() == ({0: 7}, [], 1)


def test_long_polls_are_short_while_partitions_are_added() -> None:
    follower = Follower()
    waits = []
    for index, now_ms in enumerate((10_000, 10_040, 10_060)):
        follower.now_ms = now_ms
        follower.follow(index)
    while follower.now_ms < 13_000:
        request, wait_ms = follower.states.make_request(15, follower.now_ms, CONFIG, 9)
        assert request is not None and request.max_wait_ms == wait_ms
        follower.states.complete_fetch(5)
        waits.append(wait_ms)
        follower.now_ms += wait_ms
    assert waits[:7] == [25, 25, 50, 100, 200, 400, 500] and set(waits[7:]) == {CONFIG.replica_fetch_wait_max_ms}


@pytest.mark.parametrize(("partitions", "worth_it_from_ms"), [(1, 51), (300, 51), (3000, 151), (10_000, 501)])
def test_a_long_poll_is_given_up_when_it_lasts_longer_than_naming_all_partitions_again(
    partitions: int, worth_it_from_ms: int
) -> None:
    states = Follower().states
    for index in range(partitions):
        states.session.send(TopicPartition("t", index), TOPIC_ID)
    assert not states.is_worth_renewing(worth_it_from_ms - 1, 0.0)
    assert states.is_worth_renewing(worth_it_from_ms, 0.0)


def test_long_polls_are_given_up_the_less_often_the_more_partitions_are_named_again() -> None:
    """Each wave of a mass creation found a long poll to give up, so every partition was named ten times."""
    states = Follower().states
    for index in range(1000):
        states.session.send(TopicPartition("t", index), TOPIC_ID)
    states.note_renewal(10_000.0)
    assert not states.is_worth_renewing(500.0, 11_499.0)
    assert states.is_worth_renewing(500.0, 11_500.0)


def test_a_request_says_what_the_leader_must_know() -> None:
    follower = Follower()
    follower.follow(end=7)
    request, wait_ms = follower.states.make_request(15, 1000.0, CONFIG, 9)
    assert request is not None
    (asked,) = request.topics[0].partitions
    assert (asked.current_leader_epoch, asked.last_fetched_epoch, asked.log_start_offset) == (4, 3, 0)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 9)
    assert wait_ms == CONFIG.replica_fetch_wait_max_ms


def test_a_partition_that_backs_off_leaves_the_session_and_comes_back() -> None:
    follower = Follower()
    state = follower.follow()
    follower.follow(1)
    follower.request()
    follower.answer(0)
    follower.states.back_off(state, follower.now_ms, 1000)
    assert follower.request() == ({}, [0], 1)
    follower.now_ms = follower.next_try_ms(state)
    assert follower.request() == ({0: 0}, [], 1)
    waits = []
    for _ in range(12):
        follower.states.back_off(state, 0.0, 1000)
        waits.append(follower.next_try_ms(state))
    assert waits == sorted(waits) and 0 < waits[0] < waits[5] and waits[-1] == 1000, "longer each time, with a bound"


@pytest.mark.parametrize(("leader_epoch", "last_ms"), [(0, 100), (1, 10)])
def test_many_new_partitions_back_off_for_longer(leader_epoch: int, last_ms: float) -> None:
    """Hundreds of new partitions were asked for six times, until their leader had made the logs."""
    follower = Follower()
    states = [follower.follow(index) for index in range(400)]
    follower.request()
    for state in states:
        state.leader_epoch = leader_epoch
        follower.states.back_off(state, 0.0, 1000)
    waits = [follower.next_try_ms(state) for state in states]
    assert waits[:40] == [10] * 40 and waits == sorted(waits) and waits[-1] == pytest.approx(last_ms, abs=0.5)
    follower.states.back_off(states[-1], 0.0, 15)
    assert follower.next_try_ms(states[-1]) == 15


def test_thousands_that_one_answer_refused_are_tried_again_together() -> None:
    """Followers heard of an election of preferred leaders first, and asked three times, a few partitions at a time, until they led."""
    follower = Follower()
    followed = [follower.follow(index) for index in range(3000)]
    assert follower.request() is not None
    refused = [partition_data(ErrorCode.UNKNOWN_LEADER_EPOCH, partition_index=index) for index in range(3000)]
    topic = r.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=refused)
    for state, _ in follower.states.match_answers(r.FetchResponse(session_id=5, responses=[topic]), 15):
        follower.states.back_off(state, 0.0, 1000)
    assert {follower.next_try_ms(state) for state in followed} == {60}


def test_while_all_back_off_there_is_no_request() -> None:
    follower = Follower()
    follower.states.leave_out_until(follower.follow(), 50.0)
    assert follower.states.make_request(15, 20.0, CONFIG, 9) == (None, 30.0)


def test_an_answer_about_what_is_followed_no_longer_is_dropped() -> None:
    """1. A fetch is on its way. 2. The partition is stopped and followed again. 3. The answer to 1 comes."""
    follower = Follower()
    follower.follow()
    follower.follow(1)
    follower.request()
    follower.states.remove(TopicPartition("t", 0))
    assert follower.answer(0) == []
    assert follower.request() == ({}, [0], 1)
    state = follower.follow()
    assert follower.answer(0) == []
    assert follower.states.is_current(state)


def test_a_state_of_an_earlier_leader_epoch_is_not_current() -> None:
    follower = Follower()
    state = follower.follow()
    follower.request()
    state.partition.become_leader(assignment(leader_epoch=5, partition_epoch=1), 0.0)
    assert not follower.states.is_current(state)
    assert follower.answer(0) == []


@pytest.fixture
def following_four(monkeypatch: pytest.MonkeyPatch) -> Follower:
    """Four partitions in the session, and the first of them in a new leader epoch; from the next one on, those that can wait do."""
    monkeypatch.setattr(fetch_states, "_WAITS_FROM", 1)
    follower = Follower()
    for index in range(4):
        follower.now_ms += 1000.0
        follower.follow(index)
    follower.request()
    follower.answer(0)
    follower.now_ms += 1000.0
    follower.follow(0)
    return follower


def test_idle_partitions_in_a_new_leader_epoch_wait_until_all_roles_have_come(following_four: Follower) -> None:
    """A takeover of a hundred thousand partitions: each fetch of an idle one took its time from the elections."""
    follower = following_four
    follower.follow(1)
    follower.follow(2, end=7)
    follower.follow(4)
    assert follower.request() == ({0: 0, 2: 7, 4: 0}, [], 1), (
        "what is not committed, or new in the session, is named at once"
    )
    follower.answer(2)
    follower.now_ms += 99.0
    follower.follow(3)
    assert follower.request() == ({}, [], 2)
    follower.answer(2)
    follower.now_ms += 100.0
    assert follower.request() == ({1: 0, 3: 0}, [], 3)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH])
def test_what_the_leader_answers_waits_no_longer(following_four: Follower, error: ErrorCode) -> None:
    following_four.follow(1)
    following_four.follow(2)
    following_four.request()
    assert following_four.answer(1, error=error) == [], (
        "of the epoch before: nothing is taken, and it is no reason to stop"
    )
    assert following_four.request() == ({1: 0}, [], 2)


def test_what_the_leader_must_hear_does_not_wait(following_four: Follower) -> None:
    following_four.states.changed[TopicPartition("t", 1)] = None  # its end has moved
    following_four.follow(1)
    assert following_four.request() == ({0: 0, 1: 0}, [], 1)


def test_partitions_wait_no_longer_than_a_follower_may_lag(following_four: Follower) -> None:
    following_four.follow(1)
    began_ms = following_four.now_ms
    named: dict[int, int] = {}
    while 1 not in named:
        following_four.now_ms += 50.0
        following_four.follow(0)
        request = following_four.request()
        following_four.answer(0)
        assert request is not None
        named = request[0]
    assert following_four.now_ms - began_ms == 5000.0 < CONFIG.replica_lag_time_max_ms / 4


@pytest.mark.parametrize("how", ["a new session", "stopped", "out of sync"])
def test_partitions_wait_only_in_their_session(following_four: Follower, how: str) -> None:
    states, partition = following_four.states, TopicPartition("t", 1)
    if how == "out of sync":
        states.remove(partition)
        following_four.request()
        following_four.answer(0)
    following_four.follow(1)
    if how == "a new session":
        states.restart_session()
        assert following_four.request() == ({0: 0, 1: 0, 2: 0, 3: 0}, [], 0)
    elif how == "stopped":
        states.remove(partition)
        assert following_four.request() == ({0: 0}, [1], 1)
    else:
        assert following_four.request() == ({1: 0}, [], 2)
    following_four.now_ms += 1000.0
    assert following_four.states._waiting == {}


def test_without_a_session_every_fetch_names_all() -> None:
    follower = Follower()
    follower.follow()
    follower.follow(1)
    for _ in range(2):
        assert follower.request() == ({0: 0, 1: 0}, [], 0)
        follower.states.complete_fetch(0)


def test_topics_go_by_name_while_one_has_no_id() -> None:
    follower = Follower()
    follower.follow()
    assert follower.states.choose_version(15) == 15
    follower.follow(1, NO_TOPIC_ID)
    assert (follower.states.choose_version(15), follower.states.choose_version(11)) == (12, 11)
    follower.request()
    follower.states.complete_fetch(5)
    follower.states.remove(TopicPartition("t", 1))
    assert follower.states.choose_version(15) == 15
    assert follower.request() == ({0: 0}, [], 0), "a session cannot change it"


def test_a_replica_that_lags_is_left_out_while_the_rate_is_exceeded() -> None:
    follower = Follower()
    everywhere = TopicConfig(follower_replication_throttled_replicas=("*",))
    follower.follow(config=everywhere)
    follower.follow(1, config=everywhere, is_in_sync=True)
    follower.throttled_bytes_per_s = 1
    follower.rate.add(1000, 0)
    assert follower.request() == ({1: 0}, [], 0)


def test_before_fetch_12_a_partition_asks_where_its_epoch_ends_first() -> None:
    follower = Follower()
    state = follower.follow(must_ask_epoch=True)
    follower.follow(1)
    assert follower.request(11) == ({1: 0}, [], 0)
    assert follower.states.select_epoch_askers(0.0) == [state]
    (topic,) = follower.states.make_epochs_request([state]).topics
    asked = topic.partitions[0]
    assert (topic.topic, asked.partition, asked.current_leader_epoch, asked.leader_epoch) == ("t", 0, 4, 3)
    state.must_ask_epoch = False
    assert follower.states.select_epoch_askers(0.0) == [] and not follower.states.may_ask_epochs
    follower.states.complete_fetch(5)
    assert follower.request(11) == ({0: 0}, [], 1)
