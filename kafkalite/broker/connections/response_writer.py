"""Writes the responses of one connection: those of one read together, and those with records in files a portion in each turn of the event
loop, as long as the socket takes them.

What is not in memory is loaded by the executor first, as with every read of the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.errors import KafkaError
from kafkalite.protocol.bounds import SMALL_BYTES
from kafkalite.storage.cold_reads import LOADS_LIMIT
from kafkalite.storage.log.file_records import PORTION_BYTES, FileRecords
from kafkalite.storage.open_files import NotInMemory

if TYPE_CHECKING:
    from kafkalite.broker.connections.unread_responses import UnreadResponses
    from kafkalite.types import Buffer

WRITE_BUFFER_BYTES: Final = PORTION_BYTES
"""Bytes that the socket has not taken beyond which nothing more is read from the client, nor from files for it."""


def is_portioned(answer: Sequence[Buffer | FileRecords]) -> bool:
    """True if records of the response are still to be read from files."""
    return FileRecords in map(type, answer)


class ResponseWriter:
    """The writing side of one connection. What is written is counted in `unread`."""

    __slots__ = (
        "_corked",
        "_corked_bytes",
        "_counted_bytes",
        "_next_count_bytes",
        "_portioned",
        "_unread",
        "is_corked",
        "is_writable",
        "transport",
        "written_bytes",
    )

    def __init__(self, unread: UnreadResponses) -> None:
        self._unread = unread
        self.transport: asyncio.Transport | None = None
        """None before the connection is made and after it is lost."""
        self.written_bytes = self._counted_bytes = self._next_count_bytes = 0
        self.is_writable = True
        self.is_corked = False
        self._corked: list[Buffer] = []
        self._corked_bytes = 0
        self._portioned: PortionedAnswer | None = None

    def open(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self.transport = transport

    def close(self) -> None:
        self.transport = self._portioned = None

    def pause(self) -> None:
        """Start no portion any more: the socket has not taken what was written."""
        self.is_writable = False

    def resume(self) -> None:
        """Go on: the socket has taken it."""
        self.is_writable = True
        if self._portioned is not None:
            self._portioned.go_on()

    @property
    def takes_more(self) -> bool:
        return self.is_writable and self.transport is not None and not self.transport.is_closing()

    @property
    def is_in_portions(self) -> bool:
        """True while a response is written in portions."""
        return self._portioned is not None

    @property
    def unread_bytes(self) -> int:
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def cork(self) -> None:
        """Keep what is written until `uncork`."""
        self.is_corked = True

    def cork_for_turn(self) -> None:
        """Keep what is written until the event loop's next turn."""
        if not self.is_corked:
            self.is_corked = True
            asyncio.get_running_loop().call_soon(self.uncork)

    def uncork(self) -> None:
        self.is_corked = False
        if self._corked:
            self._flush()

    def write(self, buffers: list[Buffer]) -> None:
        """Write now, or together with what is corked."""
        size = 0
        for each in buffers:  # cheaper than sum() for so few
            size += len(each)
        if not self.is_corked:
            self.write_now(buffers, size)
            return
        self._corked += buffers
        self._corked_bytes += size
        if self._corked_bytes > WRITE_BUFFER_BYTES:  # nothing more is answered to a client that reads nothing
            self._flush()

    def write_portions(
        self, answer: list[Buffer], sent: Callable[[], None], cannot_go_on: Callable[[KafkaError], None]
    ) -> None:
        """Write a response that `is_portioned`. Nothing else may be written before `sent` is called."""

        def finish() -> None:
            self._portioned = None
            sent()

        if self._corked:
            self._flush()
        self._portioned = PortionedAnswer(answer, self, finish, cannot_go_on)
        self._portioned.go_on()

    def _flush(self) -> None:
        corked, size, self._corked, self._corked_bytes = self._corked, self._corked_bytes, [], 0
        self.write_now(corked, size)

    def write_now(self, buffers: list[Buffer], size: int) -> None:
        """Write now, where nothing is corked."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if len(buffers) == 1:
            transport.write(buffers[0])
        else:
            transport.writelines(buffers)
        self.written_bytes = written_bytes = self.written_bytes + size
        if written_bytes > self._next_count_bytes:
            self._count_written()

    def _count_written(self) -> None:
        unread = self._unread
        unread.headroom_bytes -= self.written_bytes - self._counted_bytes
        self._counted_bytes, self._next_count_bytes = self.written_bytes, self.written_bytes + SMALL_BYTES
        if unread.headroom_bytes < 0:
            unread.check_readers()


class PortionedAnswer:
    """A response that is written in portions. `sent` is called when all is written, `cannot_go_on` if records cannot be read."""

    def __init__(
        self,
        answer: Sequence[Buffer | FileRecords],
        writer: ResponseWriter,
        sent: Callable[[], None],
        cannot_go_on: Callable[[KafkaError], None],
    ) -> None:
        self._parts = deque(answer)
        self._writer, self._sent, self._cannot_go_on = writer, sent, cannot_go_on
        self._position = 0
        """Bytes of the first part that are ready."""
        self._ready: list[Buffer] = []
        self._loads = 0
        self._is_awaiting = False

    def go_on(self) -> None:
        """Write a portion now, and the next one in the next turn of the event loop."""
        if self._is_awaiting or not self._writer.takes_more:
            return
        try:
            self._prepare()
        except NotInMemory as cold:
            if not self._ready:
                self._loads += 1
                self._is_awaiting = True
                asyncio.get_running_loop().run_in_executor(None, cold.load).add_done_callback(self._turn)
                return
        except KafkaError as problem:
            self._cannot_go_on(problem)
            return
        ready, self._ready = self._ready, []
        self._loads = 0
        self._writer.write_now(ready, sum(map(len, ready)))
        if not self._parts:
            self._sent()
            return
        self._is_awaiting = True
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self, _: object = None) -> None:
        self._is_awaiting = False
        self.go_on()

    def _prepare(self) -> None:
        """Make the next portion ready, with what precedes and follows it. Raises NotInMemory, KafkaError."""
        parts, ready, has_portion = self._parts, self._ready, False
        while parts:
            part = parts[0]
            if isinstance(part, FileRecords):
                if has_portion:
                    return
                if not self._position:
                    ready.append(part.head)
                    self._position = len(part.head)
                data = part.read(self._position, may_wait=self._loads > LOADS_LIMIT)
                ready.append(data)
                has_portion = True
                self._position += len(data)
                if self._position < len(part):
                    return
                self._position = 0
            else:
                ready.append(part)
            parts.popleft()
