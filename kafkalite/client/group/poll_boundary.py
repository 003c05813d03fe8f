"""The moments between two polls, when partitions can be given up: what was handed out before a poll counts as read once it begins.

A poll is a call for records: `getmany`, `getone`, a step of `async for`.
"""

from __future__ import annotations

import asyncio


class PollBoundary:
    """Counts the polls under way, and keeps them from reading while partitions are given up (`hold`, `release`)."""

    def __init__(self) -> None:
        self.polls = 0
        """Under way now."""
        self.is_wanted = False
        """True while partitions are given up, or wait for the next poll to be given up."""
        self._began = asyncio.Event()
        self._readable = asyncio.Event()
        self._readable.set()

    def begin_poll(self) -> None:
        """A poll begins; it reads after `wait_until_readable`."""
        self.polls += 1
        self._began.set()
        if self.is_wanted:
            self._readable.clear()

    def end_poll(self) -> None:
        """A poll ended, also one that was cancelled while it waited."""
        self.polls -= 1
        if not self.polls:
            self._began.clear()

    async def wait_until_readable(self) -> None:
        """Wait while partitions are given up."""
        if not self._readable.is_set():
            await self._readable.wait()

    async def hold(self) -> None:
        """Wait for a poll, or for `waive`, and keep polls from reading until `release`."""
        self.is_wanted = True
        if not self.polls:
            self._began.clear()
            await self._began.wait()
        self._readable.clear()

    def waive(self) -> None:
        """Let a `hold` that waits for a poll go on without one."""
        self._began.set()

    def release(self) -> None:
        """Partitions were given up, or will not be: polls may read."""
        self.is_wanted = False
        self._readable.set()
