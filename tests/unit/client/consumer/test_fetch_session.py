"""Incremental fetch sessions: what is named, what is forgotten, and when everything begins again."""

from __future__ import annotations

from kafkalite.client.consumer.fetch_session import ConsumerFetchSession, FetchPosition
from kafkalite.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID, OTHER_ID = b"1" * 16, b"2" * 16


def asked(offset: int, topic_id: bytes = ID, epoch: int = 0) -> FetchPosition:
    return FetchPosition(topic_id, offset, epoch)


def established() -> ConsumerFetchSession:
    session = ConsumerFetchSession()
    first = session.request({T0: asked(0), T1: asked(0)})
    assert (first.session_id, first.session_epoch, first.named, first.forgotten) == (0, 0, (T0, T1), [])
    session.handler.complete_fetch(77)
    return session


def test_only_what_changed_is_named() -> None:
    session = established()
    second = session.request({T0: asked(5), T1: asked(0)})
    assert (second.session_id, second.session_epoch, second.named, second.forgotten) == (77, 1, (T0,), [])
    session.handler.complete_fetch(77)
    third = session.request({T0: asked(5), T1: asked(0, epoch=1)})
    assert (third.session_epoch, third.named) == (2, (T1,))


def test_what_is_not_wanted_now_is_forgotten_and_named_again_later() -> None:
    session = established()
    second = session.request({T0: asked(0)})
    assert (second.named, second.forgotten) == ((), [(T1, ID)])
    session.handler.complete_fetch(77)
    assert session.request({T0: asked(0), T1: asked(0)}).named == (T1,)


def test_a_topic_made_anew_is_another_one() -> None:
    session = established()
    second = session.request({T0: asked(0, OTHER_ID), T1: asked(0)})
    assert (second.named, second.forgotten) == ((T0,), [(T0, ID)])


def test_after_trouble_the_next_request_is_full_and_ends_the_old_session() -> None:
    session = established()
    session.handler.reset()
    again = session.request({T0: asked(0)})
    assert (again.session_id, again.session_epoch, again.named) == (77, 0, (T0,))
    session.handler.reset(is_lost=True)
    assert session.request({T0: asked(0)}).session_id == 0


def test_a_broker_without_sessions_gets_full_requests() -> None:
    session = ConsumerFetchSession()
    for _ in range(3):
        assert session.request({T0: asked(0)}).named == (T0,)
        session.handler.complete_fetch(0)
    assert (session.handler.session_id, session.handler.epoch) == (0, 0)


def test_epochs_wrap_past_the_full_one() -> None:
    session = established()
    session.handler.epoch = 2**31 - 1
    session.handler.complete_fetch(77)
    assert session.handler.epoch == 1
