"""The protocol of one connection to ZooKeeper, driven with bytes: handshake, order of replies, pings, watch events, hostile servers."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest
from kazoo.protocol import serialization as kazoo_requests
from kazoo.protocol.connection import PingInstance
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

from zk.protocol import requests
from zk.protocol.connection import (
    AuthenticationRefused,
    Closed,
    Connection,
    ConnectionLost,
    Opened,
    Reply,
    SessionEnded,
    SessionTicket,
    Stage,
)
from zk.protocol.jute import encode_buffer, encode_string, encode_strings
from zk.protocol.requests import ErrorCode, Request, ResultError
from zk.security.digest_md5 import ServerNotProven
from zk.security.znode_acls import ZnodeAcl
from zk.store import Check, Create, Delete, EventType, Stat, WatchEvent, Write

STAT = Stat(1, 2, 3, 4, 5, 6, 8, 9, 10)
STAT_BYTES = struct.pack(">qqqqiiiqiiq", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
TICKET = SessionTicket(0x77, b"p" * 16)


def frame(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def session(timeout_ms: int = 9_000, ticket: SessionTicket = TICKET) -> bytes:
    return frame(struct.pack(">iiq", 0, timeout_ms, ticket.session_id) + encode_buffer(ticket.password) + b"\0")


def reply(xid: int, body: bytes = b"", error: int = 0, zxid: int = 50) -> bytes:
    return frame(struct.pack(">iqi", xid, zxid, error) + body)


def watch_event(number: int, path: str) -> bytes:
    return reply(-1, struct.pack(">ii", number, 3) + encode_string(path), zxid=-1)


def opening(exchange=None, ticket: SessionTicket | None = None) -> Connection:
    return Connection(ticket or SessionTicket(), 18.0, 40, exchange, 2.0, now_s=100.0)


def opened() -> Connection:
    connection = opening()
    connection.receive(session(), 100.0)
    assert connection.take_events() == [Opened(TICKET, 9.0)]
    connection.outgoing.clear()
    return connection


def events_of(connection: Connection, data: bytes, now_s: float = 100.0) -> list[object]:
    connection.receive(data, now_s)
    return list(connection.take_events())


def kazoo_frame(xid: int, request) -> bytes:
    return frame(struct.pack(">ii", xid, request.type) + bytes(request.serialize()))


OPEN_ENTRY = ACL(31, Id("world", "anyone"))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (requests.get_data("/ä"), kazoo_requests.GetData("/ä", None)),
        (requests.get_data("/a", watch=True), kazoo_requests.GetData("/a", print)),
        (requests.exists("/a", watch=True), kazoo_requests.Exists("/a", print)),
        (requests.get_children("/a"), kazoo_requests.GetChildren("/a", None)),
        (requests.create(Create("/a"), "/c/a", None), kazoo_requests.Create("/c/a", None, OPEN_ACL_UNSAFE, 0)),
        (
            requests.create(Create("/a", b"x", True, True), "/a", (ZnodeAcl(1, "sasl", "u"),)),
            kazoo_requests.Create("/a", b"x", [ACL(1, Id("sasl", "u"))], 3),
        ),
        (requests.set_data("/a", b"x", 3), kazoo_requests.SetData("/a", b"x", 3)),
        (requests.delete("/a", -1), kazoo_requests.Delete("/a", -1)),
        (requests.sync("/"), kazoo_requests.Sync("/")),
        (requests.get_acl("/a"), kazoo_requests.GetACL("/a")),
        (requests.set_acl("/a", [ZnodeAcl(31, "world", "anyone")]), kazoo_requests.SetACL("/a", [OPEN_ENTRY], -1)),
        (requests.sasl(b"token"), kazoo_requests.SASL(b"token")),
        (requests.close_session(), kazoo_requests.Close()),
        (
            requests.multi(
                [
                    (Check("/a", 1), "/a", None),
                    (Create("/b", b""), "/b", None),
                    (Write("/c", b"y", 2), "/c", None),
                    (Delete("/d"), "/d", None),
                ]
            ),
            kazoo_requests.Transaction(
                [
                    kazoo_requests.CheckVersion("/a", 1),
                    kazoo_requests.Create("/b", b"", OPEN_ACL_UNSAFE, 0),
                    kazoo_requests.SetData("/c", b"y", 2),
                    kazoo_requests.Delete("/d", -1),
                ]
            ),
        ),
    ],
)
def test_requests_have_kazoos_bytes(ours: Request, theirs) -> None:
    connection = opened()
    connection.send(ours, 100.0)
    assert bytes(connection.outgoing) == kazoo_frame(1, theirs)


def test_the_handshake_has_kazoos_bytes() -> None:
    connection = opening(ticket=TICKET)
    theirs = kazoo_requests.Connect(0, 40, 18_000, TICKET.session_id, TICKET.password, False)
    assert bytes(connection.outgoing) == frame(bytes(theirs.serialize()))


@pytest.mark.parametrize(
    ("request_", "body", "expected"),
    [
        (requests.get_data("/a"), encode_buffer(b"data") + STAT_BYTES, (b"data", STAT)),
        (requests.get_data("/a"), encode_buffer(None) + STAT_BYTES, (b"", STAT)),
        (requests.exists("/a"), STAT_BYTES, STAT),
        (requests.get_children("/a"), encode_strings(["b", "ä"]), ["b", "ä"]),
        (requests.create(Create("/a"), "/a", None), encode_string("/a0000000001"), "/a0000000001"),
        (requests.delete("/a", 1), b"", None),
        (requests.get_acl("/a"), struct.pack(">ii", 1, 31) + encode_strings(["world"])[4:] + encode_string("x"), None),
        (
            requests.multi_read(["/a", "/b"]),
            struct.pack(">iBi", 4, 0, 0)
            + encode_buffer(b"x")
            + STAT_BYTES
            + struct.pack(">iBii", -1, 0, -101, -101)
            + struct.pack(">iBi", -1, 1, -1),
            [(b"x", STAT), ResultError(-101)],
        ),
        (
            requests.multi([]),
            struct.pack(">iBi", 13, 0, 0)
            + struct.pack(">iBi", 1, 0, 0)
            + encode_string("/p")
            + struct.pack(">iBi", 5, 0, 0)
            + STAT_BYTES
            + struct.pack(">iBi", 2, 0, 0)
            + struct.pack(">iBi", -1, 1, -1),
            [None, "/p", STAT, None],
        ),
    ],
)
def test_replies_are_read_in_whatever_pieces_they_arrive(request_: Request, body: bytes, expected: object) -> None:
    if expected is None and request_.code is requests.Code.GET_ACL:
        expected = [ZnodeAcl(31, "world", "x")]
    for size in (1, 7, 1_000):
        connection = opened()
        connection.send(request_, 100.0)
        data = reply(1, body)
        seen = [event for at in range(0, len(data), size) for event in events_of(connection, data[at : at + size])]
        assert seen == [Reply(request_, 0, expected)]
        assert connection.last_zxid == 50


def test_replies_come_in_order_and_watch_events_where_they_stand() -> None:
    connection = opened()
    first, second, third = requests.get_data("/a", watch=True), requests.exists("/none"), requests.delete("/a", 1)
    for each in (first, second, third):
        connection.send(each, 100.0)
    data = (
        reply(1, encode_buffer(b"x") + STAT_BYTES) + watch_event(3, "/a") + reply(2, error=-101) + reply(3, error=-103)
    )
    seen = events_of(connection, data + watch_event(99, "/a"))
    assert seen == [
        Reply(first, 0, (b"x", STAT)),
        WatchEvent(EventType.CHANGED, "/a"),
        Reply(second, 0, None),
        Reply(third, ErrorCode.BAD_VERSION, None),
    ]


def test_the_events_before_an_error_are_not_lost() -> None:
    connection = opened()
    connection.send(requests.delete("/a", 1), 100.0)
    connection.send(requests.delete("/b", 1), 100.0)
    with pytest.raises(ConnectionLost, match="-118"):
        connection.receive(reply(1) + reply(2, error=ErrorCode.SESSION_MOVED), 100.0)
    (event,) = connection.take_events()
    assert isinstance(event, Reply) and event.error == 0


def test_a_ping_is_sent_before_the_session_is_in_danger_and_silence_ends_the_connection() -> None:
    connection = opened()  # with 9 s
    assert connection.next_tick_s == pytest.approx(102.7)
    connection.tick(102.6)
    assert not connection.outgoing
    connection.tick(102.7)
    assert bytes(connection.outgoing) == kazoo_frame(-2, PingInstance)
    assert events_of(connection, reply(-2, zxid=99), 103.0) == []
    assert connection.last_zxid == 40, "what a ping's reply has seen, no request of this client has"
    connection.tick(108.9)
    assert connection.next_tick_s == pytest.approx(109.0)
    with pytest.raises(ConnectionLost, match=r"silent for 6\.00 s"):
        connection.tick(109.0)


def test_a_busy_connection_sends_no_pings() -> None:
    connection = opened()
    for second in range(101, 120):
        connection.send(requests.sync("/"), second)
        connection.note_heard(second)
        connection.outgoing.clear()
        connection.tick(second + 0.5)
        assert not connection.outgoing


def test_a_server_that_does_not_answer_the_opening_is_given_up() -> None:
    connection = opening()
    connection.tick(101.9)
    with pytest.raises(ConnectionLost, match="silent"):
        connection.tick(102.0)


def test_an_expired_session_is_told() -> None:
    with pytest.raises(SessionEnded):
        opening(ticket=TICKET).receive(session(timeout_ms=0), 100.0)


def test_a_session_is_closed() -> None:
    connection = opened()
    request = requests.get_data("/a")
    connection.send(request, 100.0)
    connection.close(100.0)
    assert connection.stage is Stage.CLOSING
    big = encode_buffer(b"x" * 100_000) + STAT_BYTES
    assert events_of(connection, reply(1, big) + reply(2)) == [Reply(request, 0, (b"x" * 100_000, STAT)), Closed()]


def test_the_end_of_a_session_that_was_idle_is_sent() -> None:
    """The connection was given up before closeSession had left: the session and its ephemeral znodes stayed until their timeout."""
    connection = opened()
    connection.close(105.0)
    connection.tick(105.0)
    assert bytes(connection.outgoing) == kazoo_frame(1, kazoo_requests.Close())
    connection.tick(109.9)
    with pytest.raises(ConnectionLost, match="silent"):
        connection.tick(110.0)


def exchange() -> Iterator[bytes]:
    challenge = yield b""
    if challenge != b"challenge":
        raise ServerNotProven("another mechanism")
    yield b"answer"


def test_nothing_is_sent_before_the_authentication_is_over() -> None:
    connection = opening(exchange())
    connection.outgoing.clear()
    assert events_of(connection, session()) == []
    assert bytes(connection.outgoing) == kazoo_frame(1, kazoo_requests.SASL(b""))
    connection.outgoing.clear()
    assert events_of(connection, reply(1, encode_buffer(b"challenge"))) == []
    assert bytes(connection.outgoing) == kazoo_frame(2, kazoo_requests.SASL(b"answer"))
    assert connection.stage is Stage.AUTHENTICATING
    assert events_of(connection, reply(2, encode_buffer(b"proof"))) == [Opened(TICKET, 9.0)]


@pytest.mark.parametrize(
    "answer", [reply(1, error=-115), reply(1, error=-124), reply(1, encode_buffer(b"something else"))]
)
def test_refused_credentials_are_told_from_a_lost_connection(answer: bytes) -> None:
    connection = opening(exchange())
    connection.receive(session(), 100.0)
    with pytest.raises(AuthenticationRefused):
        connection.receive(answer, 100.0)


@pytest.mark.parametrize(
    "message",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 2**30),
        reply(2),
        reply(7, error=-101),
        frame(b"short"),
        reply(1, encode_buffer(b"x" * 10)[:-1]),
        reply(1, struct.pack(">i", 2**31 - 1) + b"x"),
        reply(1, encode_buffer(b"x") + STAT_BYTES[:-1]),
        reply(-1, b"\0"),
        reply(-1, struct.pack(">ii", 3, 3) + encode_buffer(b"\xff")),
    ],
)
def test_what_is_not_zookeepers_ends_the_connection(message: bytes) -> None:
    connection = opened()
    connection.send(requests.get_data("/a"), 100.0)
    with pytest.raises(ConnectionLost):
        connection.receive(message, 100.0)


def test_an_opening_is_small() -> None:
    with pytest.raises(ConnectionLost, match="announced"):
        opening().receive(struct.pack(">i", 65_537), 100.0)


def test_damaged_bytes_never_raise_anything_else() -> None:
    rng = random.Random(7)
    sent = [
        requests.get_data("/a"),
        requests.get_children("/a"),
        requests.multi_read(["/a"]),
        requests.get_acl("/a"),
        requests.create(Create("/a"), "/a", None),
    ]
    data = (
        session()
        + reply(1, encode_buffer(b"data") + STAT_BYTES)
        + reply(2, encode_strings(["b", "c"]))
        + watch_event(3, "/a")
        + reply(3, struct.pack(">iBi", 4, 0, 0) + encode_buffer(b"x") + STAT_BYTES + struct.pack(">iBi", -1, 1, -1))
        + reply(4, struct.pack(">ii", 1, 31) + encode_string("world") + encode_string("x"))
        + reply(5, encode_string("/a"))
    )
    for _ in range(2_000):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        connection = opening()
        for each in sent:
            connection.send(each, 100.0)
        try:
            connection.receive(bytes(damaged), 100.0)
        except (ConnectionLost, SessionEnded):
            pass


def test_watches_are_armed_again_by_few_requests() -> None:
    request = requests.set_watches(9, ["/d"], ["/absent"], ["/c"])
    connection = opened()
    connection.send(request, 100.0)
    lists = encode_strings(["/d"]) + encode_strings(["/absent"]) + encode_strings(["/c"])
    assert bytes(connection.outgoing) == frame(struct.pack(">iiq", -8, 101, 9) + lists)
    assert events_of(connection, watch_event(2, "/d") + reply(-8)) == [
        WatchEvent(EventType.DELETED, "/d"),
        Reply(request, 0, None),
    ]
    assert list(requests.split_paths(["/aa", "/bbbbbbbbb", "/cc", "/dd", "/ee"], 21)) == [
        ["/aa", "/bbbbbbbbb"],
        ["/cc", "/dd", "/ee"],
    ]
