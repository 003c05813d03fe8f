"""The sessions that peers hand over: the latest one of each, of brokers that exist."""

from __future__ import annotations

import random

from kafkalite.broker.failure_detection.evidence import PeerHeartbeat
from kafkalite.broker.failure_detection.peer_sessions import PeerSession, PeerSessions

OLD, NEW = bytes(16), bytes([1]) * 16


def sessions(*known: int) -> tuple[PeerSessions, set[int]]:
    brokers = set(known)
    return PeerSessions(lambda: brokers, lambda: 70, random.Random(1)), brokers


def heartbeat(
    broker_id: int, epoch: int, session_id: int, password: bytes | None, process: bytes = OLD
) -> PeerHeartbeat:
    return PeerHeartbeat(broker_id, epoch, process, session_id, password)


def test_a_password_holds_until_there_is_another_session() -> None:
    peers, _ = sessions(2)
    assert peers.find(2) is None
    peers.note_heartbeat(heartbeat(2, 10, 100, b"a"))
    peers.note_heartbeat(heartbeat(2, 10, 100, None))
    assert peers.find(2) == PeerSession(10, OLD, 100, b"a")
    peers.note_heartbeat(heartbeat(2, 11, 101, None))
    assert peers.find(2) == PeerSession(11, OLD, 101, None), "the password of another session ends nothing"
    peers.note_heartbeat(heartbeat(2, 11, 101, b"b"))
    assert peers.find(2) == PeerSession(11, OLD, 101, b"b")


def test_an_earlier_registration_changes_nothing() -> None:
    peers, _ = sessions(2)
    peers.note_heartbeat(heartbeat(2, 11, 101, b"b", NEW))
    peers.note_heartbeat(heartbeat(2, 10, 100, b"a", OLD))
    assert peers.find(2) == PeerSession(11, NEW, 101, b"b")


def test_no_more_brokers_are_kept_than_there_are() -> None:
    peers, known = sessions(2, 3)
    for broker_id in (9, 2, 3):
        peers.note_heartbeat(heartbeat(broker_id, 10, 100 + broker_id, b"a"))
        assert peers.find(9) is None
    known -= {3}
    peers.note_heartbeat(heartbeat(2, 10, 102, None))
    assert peers.find(3) is None and peers.find(2) == PeerSession(10, OLD, 102, b"a")


def test_a_broker_that_metadata_lacks_for_a_moment_keeps_its_password() -> None:
    peers, known = sessions(1, 2, 3)
    peers.note_heartbeat(heartbeat(2, 10, 100, b"a"))
    known -= {2}
    peers.note_heartbeat(heartbeat(3, 10, 101, b"b"))
    known |= {2}
    peers.note_heartbeat(heartbeat(2, 10, 100, None))
    assert peers.find(2) == PeerSession(10, OLD, 100, b"a")


def test_what_the_owner_says_of_itself() -> None:
    peers, _ = sessions()
    assert peers.broker_epoch == 70
    assert len(peers.incarnation) == 16 and peers.incarnation == peers.incarnation
    other = PeerSessions(set, lambda: 70, random.Random(2))
    assert other.incarnation != peers.incarnation
