"""The fetcher's side of a fetch session (KIP-227): what is sent, what is forgotten, and when everything begins again."""

from __future__ import annotations

import pytest

from kafkalite.protocol.fetch_session_handler import FetchSessionHandler
from kafkalite.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_session_goes_on_and_begins_again() -> None:
    session = FetchSessionHandler()
    assert (session.session_id, session.epoch) == (0, 0)
    session.send(T0, b"id")
    session.complete_fetch(7)
    assert (session.session_id, session.epoch, list(session.sent)) == (7, 1, [T0])
    session.epoch = 0x7FFFFFFF
    session.complete_fetch(7)
    assert session.epoch == 1
    session.reset()
    assert (session.session_id, session.epoch, list(session.sent)) == (7, 0, []), "a full fetch ends the old session"
    session.reset(is_lost=True)
    assert (session.session_id, session.epoch) == (0, 0)


def test_a_broker_without_sessions_gets_full_fetches() -> None:
    session = FetchSessionHandler()
    session.send(T0, b"id")
    session.complete_fetch(0)
    assert (session.session_id, session.epoch, list(session.sent)) == (0, 0, [])


def test_what_is_forgotten_is_said_once_and_not_when_it_is_sent_again() -> None:
    session = FetchSessionHandler()
    session.send(T0, b"id")
    session.send(T1, b"id")
    session.forget(T0)
    session.forget(T1)
    session.send(T1, b"id")
    assert session.take_forgotten() == [(T0, b"id")]
    assert session.take_forgotten() == []
    session.forget(TopicPartition("never", 0))
    assert session.take_forgotten() == []


@pytest.mark.parametrize(("uses_topic_ids", "forgotten"), [(True, [(T0, b"old")]), (False, [])])
@pytest.mark.parametrize("stopped_between", [True, False])
def test_a_topic_made_again_is_another_one_in_a_session_of_ids(
    uses_topic_ids: bool, forgotten: list[tuple[TopicPartition, bytes]], stopped_between: bool
) -> None:
    session = FetchSessionHandler()
    session.uses_topic_ids = uses_topic_ids
    session.send(T0, b"old")
    if stopped_between:
        session.forget(T0)
    assert session.knows(T0, b"old") is not stopped_between
    session.send(T0, b"new")
    assert session.knows(T0, b"new")
    assert session.knows(T0, b"old") is not uses_topic_ids
    assert session.take_forgotten() == forgotten


def test_what_the_leader_tells_unasked_is_forgotten() -> None:
    session = FetchSessionHandler()
    session.refuse(T0, b"unknown")
    assert session.take_forgotten() == [(T0, b"unknown")]
