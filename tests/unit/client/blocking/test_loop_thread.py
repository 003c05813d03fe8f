"""The loop thread: calls into it, and guests that do without."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalite.client.blocking.loop_thread import LoopThread
from kafkalite.client.errors import ClientClosedError


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    acquired = LoopThread.acquire()
    yield acquired
    acquired.release()


async def two() -> int:
    return 2


def test_a_guest_works_while_the_loop_waits_and_not_while_it_calls_back(thread: LoopThread) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def call_back() -> None:
        begun.set()
        may_end.wait(10)

    assert thread.at_once(lambda: 1, 0) == 1
    thread.loop.call_soon_threadsafe(call_back)
    assert begun.wait(10)
    assert thread.at_once(lambda: 1, 0) == 0, "a callback may wait for the program: nobody waits for its end"
    may_end.set()
    assert thread.call(two()) == 2
    assert thread.at_once(lambda: 1, 0) == 1


def test_the_loop_gets_its_turn_among_guests_that_come_again_and_again(thread: LoopThread) -> None:
    ran = threading.Event()
    thread.at_once(lambda: thread.loop.call_soon_threadsafe(ran.set), None)
    deadline = time.monotonic() + 10
    while not ran.is_set():
        thread.at_once(lambda: sum(range(100)), 0)
        assert time.monotonic() < deadline, "guests kept the loop from running"


def test_neither_a_callback_nor_a_guest_is_a_guest_again(thread: LoopThread) -> None:
    def ask() -> list[Any]:
        with pytest.raises(RuntimeError, match="call it on another thread"):
            thread.call(two())
        return [thread.is_current, thread.at_once(lambda: 1, 0)]

    assert not thread.is_current
    assert thread.call_function(ask) == [True, 0]
    assert thread.at_once(ask, []) == [True, 0]
    assert not thread.is_current and thread.call(two()) == 2


def test_calls_end_with_the_last_user_and_later_ones_are_refused() -> None:
    thread = LoopThread.acquire()
    begun = threading.Event()
    found: list[str] = []

    async def wait_long() -> None:
        begun.set()
        await asyncio.sleep(60)

    def call() -> None:
        try:
            thread.call(wait_long())
        except ClientClosedError as problem:
            found.append(str(problem))

    caller = threading.Thread(target=call)
    caller.start()
    assert begun.wait(10)
    thread.release()
    caller.join(10)
    assert found == ["the client is closed"]
    with pytest.raises(ClientClosedError, match="the client is closed"):
        thread.call(two())


def test_no_call_waits_for_ever_that_meets_the_release() -> None:
    for _ in range(50):
        thread = LoopThread.acquire()
        outcomes: list[int] = []
        may_begin = threading.Barrier(2)

        def call(
            thread: LoopThread = thread, outcomes: list[int] = outcomes, barrier: threading.Barrier = may_begin
        ) -> None:
            barrier.wait(10)
            try:
                while True:
                    outcomes.append(thread.call(two()))
            except ClientClosedError:
                outcomes.append(0)

        caller = threading.Thread(target=call)
        caller.start()
        may_begin.wait(10)
        thread.release()
        caller.join(10)
        assert not caller.is_alive() and outcomes[-1] == 0


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts as on a terminal: a shell starts what runs in the background with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_cancels_the_call_that_waits(thread: LoopThread) -> None:
    ended = threading.Event()

    async def wait_long() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        thread.call(wait_long())
    assert ended.wait(10) and thread.call(two()) == 2


def test_a_signal_handler_that_raises_at_any_place_leaves_the_lock_free(thread: LoopThread) -> None:
    class Alarm(Exception):
        pass

    def handle(*_: Any) -> None:
        raise Alarm

    raised = 0
    before = signal.signal(signal.SIGVTALRM, handle)
    try:
        for _ in range(80):
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0.0002)
                while True:
                    thread.at_once(int, 0)
            except Alarm:
                raised += 1
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert raised == 80 and not thread.is_current
    assert thread.call(two()) == 2 and thread.at_once(lambda: 1, 0) == 1
