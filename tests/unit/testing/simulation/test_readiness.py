"""A simulated poll is armed once, forgets what is closed, and calls its owner for as long as something is ready."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from kafkalite.testing.simulation import virtual_time
from kafkalite.testing.simulation.readiness import IS_READABLE, Descriptors, SimulatedPoll

_ONCE = 1 << 30


class Source:
    def __init__(self, is_readable: bool = True) -> None:
        self.is_readable = is_readable

    def has_news(self) -> bool:
        return self.is_readable


def test_who_was_told_of_is_armed_again_first() -> None:
    async def scenario() -> None:
        descriptors = Descriptors(asyncio.get_running_loop())
        poll = SimulatedPoll(descriptors)
        numbers = [descriptors.open(Source()) for _ in range(3)]
        for each in numbers:
            poll.register(each, 0)
        assert poll.poll(0, 8) == []
        for each in numbers:
            poll.modify(each, IS_READABLE | _ONCE)
        assert poll.poll(0, 2) == [(numbers[0], IS_READABLE), (numbers[1], IS_READABLE)]
        poll.modify(numbers[0], IS_READABLE | _ONCE)
        assert [number for number, _ in poll.poll(0, 8)] == [numbers[2], numbers[0]]

    virtual_time.run(scenario())


def test_a_descriptor_that_is_closed_is_forgotten_and_given_to_the_next() -> None:
    async def scenario() -> None:
        descriptors = Descriptors(asyncio.get_running_loop())
        poll = SimulatedPoll(descriptors)
        first = descriptors.open(Source())
        poll.register(first, IS_READABLE)
        with pytest.raises(FileExistsError):
            poll.register(first, IS_READABLE)
        descriptors.close(first)
        for refused in (lambda: poll.modify(first, 0), lambda: poll.unregister(first)):
            with pytest.raises(FileNotFoundError):
                refused()
        assert descriptors.open(Source()) == first
        assert poll.poll(0, 1) == []

    virtual_time.run(scenario())


def test_its_owner_is_called_while_something_is_ready() -> None:
    async def scenario() -> None:
        descriptors = Descriptors(asyncio.get_running_loop())
        poll, source, calls = SimulatedPoll(descriptors), Source(is_readable=False), 0

        def ready() -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                poll.poll(0, 1)

        poll.on_ready = ready
        poll.register(descriptors.open(source), IS_READABLE)
        await virtual_time.settle()
        assert calls == 0
        source.is_readable = True
        descriptors.notify()
        await virtual_time.settle()
        assert calls == 3
        poll.close()

    virtual_time.run(scenario())


def test_a_descriptor_is_none_of_the_process_that_simulates() -> None:
    """Else the shutdown of a simulated connection shut down the socket that a test held under the same number."""

    async def scenario() -> None:
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            os.fstat(Descriptors(asyncio.get_running_loop()).open(None))

    asyncio.run(scenario())
