"""The parts of the store over kazoo that need no server: connect strings, watches, the request queue."""

import asyncio
import threading

import kazoo.exceptions
import pytest
from kazoo.handlers.threading import SequentialThreadingHandler

from zk.connect_string import split_connect
from zk.kazoo_adapter.kazoo_bridge import Answer, LoopHandler
from zk.kazoo_adapter.kazoo_requests import RequestQueue, store_error
from zk.mailbox import Mailbox
from zk.request_errors import MAX_REQUEST_BYTES, TooLargeError
from zk.store import EventType, NoAuthError, SessionExpiredError, StoreClosedError, StoreError, WatchEvent
from zk.watch_table import WatchKind, WatchTable


@pytest.mark.parametrize(
    ("connect", "expected"),
    [
        ("h:2181", ("h:2181", "")),
        ("h:2181/", ("h:2181", "")),
        ("a:1, b:2/kafka/x/", ("a:1,b:2", "/kafka/x")),
        ("[::1]:2181/k", ("[::1]:2181", "/k")),
    ],
)
def test_connect_strings(connect, expected):
    assert split_connect(connect) == expected


@pytest.mark.parametrize("connect", ["", "/kafka", "a:1,,b:2", "a:1/x//y"])
def test_connect_strings_that_are_none(connect):
    with pytest.raises(ValueError):
        split_connect(connect)


@pytest.mark.parametrize(
    ("kind", "present", "changed_zxid", "expected"),
    [
        (WatchKind.DATA, True, 100, None),
        (WatchKind.DATA, True, 101, EventType.CHANGED),
        (WatchKind.DATA, True, None, EventType.DELETED),
        (WatchKind.DATA, False, None, None),
        (WatchKind.DATA, False, 50, EventType.CREATED),
        (WatchKind.CHILDREN, True, 101, EventType.CHILDREN),
        (WatchKind.CHILDREN, True, None, EventType.DELETED),
    ],
)
def test_what_a_watch_missed(kind, present, changed_zxid, expected):
    table, events = WatchTable(), []
    table.arm(kind, "/a", events.append, present=present)
    table.connection_lost(100)
    table.connection_lost(500)
    (watch,) = table.list_disarmed()
    table.complete_rearm(watch, changed_zxid)
    assert events == ([WatchEvent(expected, "/a")] if expected else [])
    assert list(table.list_disarmed()) == []


@pytest.mark.parametrize(
    ("kind", "expected"), [(WatchKind.DATA, EventType.CHANGED), (WatchKind.CHILDREN, EventType.CHILDREN)]
)
def test_a_watch_that_could_not_be_armed_again_was_silent_for_ever(kind, expected):
    table, events = WatchTable(), []
    table.arm(kind, "/a", events.append, present=True)
    table.connection_lost(100)
    (watch,) = table.list_disarmed()
    table.give_up(watch)
    table.give_up(watch)
    assert events == [WatchEvent(expected, "/a")] and list(table.list_disarmed()) == []


class Kazoo:
    """Stands for the client: remembers what it was asked, and answers when told to."""

    def __init__(self):
        self.answers = []

    def ask(self, _):
        self.answers.append(Answer(Mailbox(asyncio.get_running_loop())))
        return self.answers[-1]


async def queue_of(kazoo: Kazoo, max_in_flight: int = 2) -> RequestQueue:
    queue = RequestQueue(kazoo, max_in_flight)
    queue.unblock()
    return queue


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("made_of_another", [False, True])
def test_a_watch_event_does_not_overtake_the_answer_that_armed_the_watch(made_of_another):
    """kazoo's thread had both before the loop's thread came back from asking: the watch was lost, and nobody woke any more."""

    async def scenario():
        mailbox, seen = Mailbox(asyncio.get_running_loop()), []
        first = answer = Answer(mailbox)
        thread = threading.Thread(target=lambda: (first.set(1), mailbox.post(seen.append, "event")))
        thread.start()
        thread.join()
        if made_of_another:
            answer = Answer(mailbox)
            first.rawlink(lambda done: answer.set(done.get()))
        answer.rawlink(lambda done: seen.append(done.get()))
        await turn()
        assert seen == [1, "event"]
        answer.rawlink(lambda done: seen.append("later"))
        await turn()
        assert seen == [1, "event", "later"]

    asyncio.run(scenario())


def test_requests_in_flight_are_bounded_and_keep_their_order_after_a_loss():
    async def scenario():
        kazoo_client = Kazoo()
        queue = await queue_of(kazoo_client)
        order = []
        futures = [
            queue.request("/a", lambda c, n=n: (order.append(n), kazoo_client.ask(c))[1], lambda value: value)
            for n in range(4)
        ]
        assert order == [0, 1]
        for answer in list(kazoo_client.answers):
            answer.set_exception(kazoo.exceptions.ConnectionLoss())
        await turn()
        assert order == [0, 1]
        queue.unblock()
        assert order == [0, 1, 0, 1]
        for n in range(4):
            kazoo_client.answers[2 + n].set(n)
            await turn()
        assert order == [0, 1, 0, 1, 2, 3]
        assert await asyncio.gather(*futures) == [0, 1, 2, 3]

    asyncio.run(scenario())


def test_requests_of_an_ended_session_fail_even_if_answered_later():
    async def scenario():
        kazoo_client = Kazoo()
        queue = await queue_of(kazoo_client)
        futures = [queue.request("/a", kazoo_client.ask, lambda value: value) for _ in range(3)]
        queue.session_ended()
        kazoo_client.answers[0].set(1)
        await turn()
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(result) for result in results] == [SessionExpiredError] * 3
        queue.unblock()
        fresh = queue.request("/a", kazoo_client.ask, lambda value: value)
        kazoo_client.answers[-1].set(2)
        assert await fresh == 2

    asyncio.run(scenario())


def test_a_request_at_which_the_server_hangs_up_fails_in_the_end():
    async def scenario():
        kazoo_client = Kazoo()
        queue = await queue_of(kazoo_client)
        future = queue.request("/large", kazoo_client.ask, lambda value: value, size_bytes=2_000_000)
        for _ in range(3):
            kazoo_client.answers[-1].set_exception(kazoo.exceptions.ConnectionLoss())
            await turn()
            queue.unblock()
        with pytest.raises(StoreError, match=r"jute\.maxbuffer"):
            await future

    asyncio.run(scenario())


def test_a_request_above_the_limit_is_not_sent():
    async def scenario():
        kazoo_client = Kazoo()
        queue = await queue_of(kazoo_client)
        with pytest.raises(StoreError, match="above the limit"):
            queue.request("/a", kazoo_client.ask, lambda value: value, size_bytes=MAX_REQUEST_BYTES + 1)
        assert not kazoo_client.answers

    asyncio.run(scenario())


def test_servers_with_a_known_limit_are_not_sent_more():
    async def scenario():
        kazoo_client = Kazoo()
        queue = RequestQueue(kazoo_client, 2, max_request_bytes=20_000)
        queue.unblock()
        with pytest.raises(TooLargeError, match=r"20001 bytes is above the limit of 20000 \(jute\.maxbuffer\)"):
            queue.request("/a", kazoo_client.ask, lambda value: value, size_bytes=20_001)
        assert not kazoo_client.answers

    asyncio.run(scenario())


def test_closed_is_not_expired():
    assert isinstance(store_error("/a", kazoo.exceptions.ConnectionClosedError()), StoreClosedError)
    assert isinstance(store_error("/a", kazoo.exceptions.SessionExpiredError()), SessionExpiredError)
    assert type(store_error("/a", kazoo.exceptions.NoAuthError())) is NoAuthError
    assert type(store_error("/a", kazoo.exceptions.InvalidACLError())) is StoreError


def test_the_first_session_is_awaited_with_growing_patience(monkeypatch):
    """A server that was just starting took a broker's connection and never answered; the broker gave up with it."""
    timeouts: list[float] = []
    monkeypatch.setattr(SequentialThreadingHandler, "create_connection", lambda *_, **__: "socket")
    monkeypatch.setattr(SequentialThreadingHandler, "select", lambda _, *arguments: timeouts.append(arguments[3]))
    handler = LoopHandler(mailbox=None, connect_timeout_s=6.0)  # type: ignore[arg-type]
    for _ in range(6):
        handler.create_connection()
        handler.select(["socket"], [], [], 6.0)
    assert timeouts == [0.5, 1.0, 2.0, 4.0, 6.0, 6.0]
    handler.session_opened()
    handler.create_connection()
    handler.select(["socket"], [], [], 3.0)
    assert timeouts[-1] == 3.0
