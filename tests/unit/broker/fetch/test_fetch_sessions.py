"""Incremental fetch sessions (KIP-227): epochs, what is ready, what is told, who makes room."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

import pytest

from kafkalite.broker.fetch import fetch_sessions
from kafkalite.broker.fetch.fetch_sessions import EVICTABLE_AFTER_MS, FetchItem, FetchSession, FetchSessionCache
from kafkalite.broker.replication.partition import Partition
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition
from tests.unit.broker.fake_log import TP, FakeLog, make_partition

OTHER = TopicPartition("t", 1)


def item(topic_partition: TopicPartition = TP, offset: int = 0) -> FetchItem:
    return FetchItem(topic_partition, topic_partition, bytes(16), offset, 1000)


class Sessions(FetchSessionCache):
    """A cache that gives ids from 1 and notes who watches what."""

    def __init__(self, slots: int = 10) -> None:
        self.watched: set[tuple[TopicPartition, int]] = set()
        super().__init__(slots, self._new_id, self._on_watch, self._on_unwatch)

    def _new_id(self, taken: Container[int]) -> int:
        return next(number for number in range(1, 1000) if number not in taken)

    def _on_watch(self, topic_partition: TopicPartition, session: FetchSession) -> None:
        self.watched.add((topic_partition, session.session_id))

    def _on_unwatch(self, topic_partition: TopicPartition, session: FetchSession) -> None:
        self.watched.discard((topic_partition, session.session_id))

    def opened(self, *items: FetchItem, is_follower: bool = False, now_ms: float = 0.0) -> FetchSession:
        items = items or (item(),)
        session = self.open(len(items), is_follower, True, now_ms)
        assert session is not None
        self.update(session, list(items))
        return session


def test_a_session_watches_its_partitions_until_it_is_closed() -> None:
    cache = Sessions()
    session = cache.opened(item(TP), item(OTHER))
    assert cache.watched == {(TP, 1), (OTHER, 1)}
    cache.forget(session, [OTHER])
    assert cache.watched == {(TP, 1)}
    assert OTHER not in session.items
    cache.close(1)
    cache.close(1)
    assert cache.watched == set()
    assert cache.sessions == {}


def test_epochs_go_up_by_one_and_wrap_to_one() -> None:
    cache = Sessions()
    session = cache.opened()
    for epoch in (1, 2, 3):
        assert cache.resume(1, epoch, True) is session
    with pytest.raises(KafkaError) as raised:
        cache.resume(1, 3, True)
    assert raised.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.next_epoch = 0x7FFFFFFF
    cache.resume(1, 0x7FFFFFFF, True)
    assert session.next_epoch == 1


def test_wrong_sessions_are_refused() -> None:
    cache = Sessions()
    cache.opened()
    with pytest.raises(KafkaError) as raised:
        cache.resume(7, 1, True)
    assert raised.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    with pytest.raises(KafkaError) as raised:
        cache.resume(1, 1, False)
    assert raised.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_change_of_what_is_asked_makes_the_partition_ready() -> None:
    cache = Sessions()
    session = cache.opened()
    session.ready.clear()
    cache.update(session, [item(TP, offset=8), item(OTHER)])
    assert list(session.ready) == [TP, OTHER]
    assert session.items[TP].fetch_offset == 8
    assert cache.watched == {(TP, 1), (OTHER, 1)}


def test_a_partition_that_changes_becomes_ready() -> None:
    session = Sessions().opened(is_follower=True)
    session.ready.clear()
    partition = make_partition()
    session.on_append(partition)
    assert list(session.ready) == [TP]
    told: list[bool] = []
    session.on_ready = lambda _, appended: told.append(appended)
    session.on_append(partition)
    session.on_high_watermark(partition)
    assert told == [True, False], "to a follower a high watermark alone is no hurry"
    session.is_follower = False
    session.on_high_watermark(partition)
    assert told[-1] is True, "to a consumer it means that there is more to read"


def test_one_refusal_of_a_response_tells_a_follower_that_leader_epochs_are_over() -> None:
    session = Sessions().opened(is_follower=True)
    session.ready.clear()
    told: list[bool] = []
    session.on_ready = lambda _, appended: told.append(appended)
    for _ in range(3):
        session.on_leader_epoch(make_partition())
    assert list(session.ready) == [TP] and told == [True]
    session.ready.clear()
    session.on_leader_epoch(make_partition())
    assert not session.ready, "its response is on the way"
    session.select_changed({})
    session.on_leader_epoch(make_partition())
    assert list(session.ready) == [TP] and told == [True, True], "the next fetch was too early, too"


def test_a_follower_is_always_told_of_an_epoch_that_ends_with_records_that_wait_for_it() -> None:
    session = Sessions().opened(item(TP), item(OTHER), is_follower=True)
    session.ready.clear()
    session.on_leader_epoch(make_partition())
    session.on_leader_epoch(make_partition(FakeLog(log_end_offset=2, high_watermark=1), topic_partition=OTHER))
    assert list(session.ready) == [TP, OTHER]


def test_a_follower_of_thousands_is_told_of_leader_epochs_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a controller begins an epoch in each, every fetch would be answered at once with one refusal."""
    monkeypatch.setattr(fetch_sessions, "_MANY", 1)
    session = Sessions().opened(item(TP), item(OTHER), is_follower=True, now_ms=1000.0)
    told = []
    for fetched_ms in (1000.0, 1099.0, 1100.0):
        session.last_fetch_ms = fetched_ms
        session.ready.clear()
        session.on_leader_epoch(make_partition())
        told.append(list(session.ready))
        session.select_changed({})
    assert told == [[TP], [], [TP]]


@pytest.mark.parametrize(
    ("leader_epoch", "fetches_between", "told_again"), [(4, 0, True), (3, 0, False), (4, 1, False)]
)
def test_what_a_follower_did_not_take_because_of_a_new_leader_epoch_is_told_again(
    leader_epoch: int, fetches_between: int, told_again: bool
) -> None:
    """1. It is told a high watermark in leader epoch 3. 2. It has heard of epoch 4 before that comes. 3. It fetches in epoch 4."""
    cache = Sessions()
    session = cache.opened(replace(item(), current_leader_epoch=3), is_follower=True)
    for epoch in range(1, 2 + fetches_between):
        cache.resume(1, epoch, True)
        session.select_changed({TP: answer(high_watermark=5)} if epoch == 1 else {})
    cache.resume(1, 2 + fetches_between, True)
    cache.update(session, [replace(item(), current_leader_epoch=leader_epoch)])
    assert (TP in session.select_changed({TP: answer(high_watermark=5)})) is told_again


def test_a_consumer_is_told_of_each_leader_epoch() -> None:
    session = Sessions().opened(is_follower=False)
    told: list[bool] = []
    session.on_ready = lambda _, appended: told.append(appended)
    session.on_leader_epoch(make_partition())
    session.on_leader_epoch(make_partition())
    assert told == [True, True]


def test_nothing_asked_is_no_session() -> None:
    assert Sessions().open(0, False, True, 0.0) is None


def test_when_the_cache_is_full_newcomers_go_without() -> None:
    cache = Sessions(slots=1)
    cache.opened(now_ms=0.0)
    assert cache.open(1, False, True, EVICTABLE_AFTER_MS) is None
    assert cache.open(1, False, True, EVICTABLE_AFTER_MS + 1) is not None
    assert len(cache.sessions) == 1


@pytest.mark.parametrize(
    ("is_follower", "partitions", "age_ms", "gets_in"),
    [
        (False, 1, EVICTABLE_AFTER_MS + 1, False),
        (False, 2, EVICTABLE_AFTER_MS + 1, True),
        (False, 2, 1.0, False),
        (True, 1, 1.0, True),
    ],
    ids=["no bigger", "bigger", "bigger, but too soon", "a follower"],
)
def test_a_greater_session_takes_the_place_of_a_lesser(
    is_follower: bool, partitions: int, age_ms: float, gets_in: bool
) -> None:
    cache = Sessions(slots=1)
    cache.opened(now_ms=0.0).last_fetch_ms = age_ms
    assert (cache.open(partitions, is_follower, True, age_ms) is not None) is gets_in


def test_a_session_with_a_parked_fetch_is_not_thrown_out() -> None:
    cache = Sessions(slots=1)
    cache.opened().on_ready = lambda partition, appended: None
    assert cache.open(2, True, True, 10 * EVICTABLE_AFTER_MS) is None


# What an incremental answer contains


def answer(records: bytes = b"", **fields: int) -> messages.fetch_response.PartitionData:
    fields = {"high_watermark": 0, "log_start_offset": 0, **fields}
    return messages.fetch_response.PartitionData(records=records, **fields)


def told(session: FetchSession, data: messages.fetch_response.PartitionData, drained: bool = True) -> bool:
    session.items[TP].is_drained = drained
    return TP in session.select_changed({TP: data})


def test_only_news_is_told() -> None:
    session = Sessions().opened()
    assert told(session, answer())
    assert not told(session, answer())
    assert told(session, answer(high_watermark=3))
    assert not told(session, answer(high_watermark=3))
    assert told(session, answer(high_watermark=3, log_start_offset=1))
    assert told(session, answer(b"x", high_watermark=3, log_start_offset=1))
    assert told(session, answer(high_watermark=3, log_start_offset=1, preferred_read_replica=2))
    diverging = answer(high_watermark=3, log_start_offset=1)
    diverging.diverging_epoch = messages.fetch_response.EpochEndOffset(epoch=1, end_offset=2)
    assert told(session, diverging)
    assert not told(session, answer(high_watermark=3, log_start_offset=1))


def test_after_an_error_everything_is_news() -> None:
    session = Sessions().opened()
    told(session, answer())
    assert told(session, answer(error_code=6))
    assert told(session, answer(error_code=6))
    assert told(session, answer())


def test_a_drained_partition_rests_until_it_changes() -> None:
    session = Sessions().opened()
    told(session, answer())
    assert TP not in session.ready


@pytest.mark.parametrize("notify", [FetchSession.on_append, FetchSession.on_isr_exit])
def test_what_changes_between_a_read_in_portions_and_its_answer_is_read_again(
    notify: Callable[[FetchSession, Partition], None],
) -> None:
    session = Sessions().opened()
    session.items[TP].is_drained = True  # read, and other portions' turns come before the answer is noted
    notify(session, make_partition())
    session.select_changed({TP: answer()})
    assert list(session.ready) == [TP]


@pytest.mark.parametrize(("data", "drained"), [(answer(b"x"), False), (answer(error_code=6), True)])
def test_who_got_something_goes_to_the_back(data: messages.fetch_response.PartitionData, drained: bool) -> None:
    session = Sessions().opened(item(TP), item(OTHER))
    told(session, data, drained)
    assert list(session.ready) == [OTHER, TP]


def test_who_got_nothing_for_want_of_room_keeps_its_turn() -> None:
    """The answer was full before this partition; it must be looked at next time, although nothing is appended."""
    session = Sessions().opened(item(TP), item(OTHER))
    told(session, answer(), drained=False)
    assert list(session.ready) == [TP, OTHER]


def test_an_answer_for_a_partition_that_was_forgotten_is_dropped() -> None:
    session = Sessions().opened(item(TP))
    assert session.select_changed({OTHER: answer(b"x")}) == {}


def forgotten(topic: str, topic_id: bytes) -> messages.fetch_request.ForgottenTopic:
    return messages.fetch_request.ForgottenTopic(topic=topic, topic_id=topic_id, partitions=[0])


def test_a_topic_is_taken_out_by_the_id_with_which_it_came() -> None:
    """Once it is deleted nobody else knows what the id stood for, and each fetch would be answered at once with its error."""
    cache = Sessions()
    session = cache.opened(replace(item(), key=(b"old", 0), topic_id=b"old"))
    cache.forget(session, session.forgotten_keys([forgotten("", b"other")]))
    assert list(session.items) == [(b"old", 0)]
    cache.update(session, [replace(item(), key=(b"new", 0), topic_id=b"new")])
    cache.forget(session, session.forgotten_keys([forgotten("", b"old")]))
    assert list(session.items) == [(b"new", 0)] and cache.watched == {(TP, 1)}, "of the same name, and watched still"
    cache.forget(session, session.forgotten_keys([forgotten("", b"old")]))
    assert list(session.items) == [(b"new", 0)]
    cache.forget(session, session.forgotten_keys([forgotten("", b"new")]))
    assert not session.items and not session.keys and not cache.watched and not cache.partitions


def test_without_ids_a_topic_is_taken_out_by_its_name() -> None:
    session = FetchSession(1, is_follower=False, uses_topic_ids=False, now_ms=0.0)
    assert session.forgotten_keys([forgotten("t", bytes(16))]) == [TP]
