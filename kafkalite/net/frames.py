"""Frames and headers of Kafka's protocol: a four-byte length, a header, a body. Bytes in, values out; no sockets.

The ApiVersions quirk (KIP-511): its response header is always version 0, and a request of an unknown version is still answered.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from kafkalite.buffer_pool import BufferPool
from kafkalite.errors import ProtocolViolation
from kafkalite.protocol.apis import Api, request_header_version, response_header_version
from kafkalite.protocol.bounds import UNKNOWN_TAGS, too_many_tags
from kafkalite.protocol.schemas.reader_source import read_uvarint
from kafkalite.types import Buffer, FrameMemory

LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")
_SHORT = struct.Struct(">h")
RECEIVE_BYTES = 256 * 1024
"""Size of the buffer into which all connections of a loop receive."""
_FIRST_ROOM_BYTES = 16 * 1024
"""Buffer of a frame of which next to nothing is there: a thousand connections that announce much take little."""
_POOL_BYTES = 6 * 1024 * 1024
_GROWTH = 4
"""Each copy of a growing frame is paid for by three times as many new bytes."""


class RequestHeader(NamedTuple):
    """The header before a request's body; `body_position` is where the body begins in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def read_head(frame: Buffer) -> tuple[int, int, int]:
    """Return (api key, api version, correlation id), which every header version begins with."""
    if len(frame) < _HEAD.size:
        raise ProtocolViolation(f"a request of {len(frame)} bytes has no room for its header")
    return _HEAD.unpack_from(frame)


def read_request_header(frame: Buffer, header_version: int) -> RequestHeader:
    """Return the header of a request frame (without the length). ProtocolViolation when it is cut or not UTF-8."""
    api_key, api_version, correlation_id = read_head(frame)
    position, client_id = _HEAD.size, None
    try:
        if header_version >= 1:
            (length,) = _SHORT.unpack_from(frame, position)
            position += 2
            if length >= 0:
                if position + length > len(frame):
                    raise ProtocolViolation(f"client id of {length} bytes where {len(frame) - position} are left")
                client_id = str(frame[position : position + length], "utf-8")
                position += length
        if header_version >= 2:
            position = _skip_tags(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise ProtocolViolation(f"request header cannot be read: {problem}") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def _skip_tags(frame: Buffer, position: int) -> int:
    """Return where the header ends. IndexError when the frame ends first, BoundExceeded when there are more of them than can be."""
    count, position = read_uvarint(frame, position)
    if count > UNKNOWN_TAGS:
        raise too_many_tags(count, UNKNOWN_TAGS)
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
        if position > len(frame):
            raise ProtocolViolation("a tagged field of the header goes beyond the frame")
    return position


def request_frame(
    api: Api, version: int, correlation_id: int, client_id: str | None, body: list[Buffer]
) -> list[Buffer]:
    """Return a whole request, ready for the socket, as a few buffers."""
    header = _HEAD.pack(api.key, version, correlation_id)
    header_version = request_header_version(api, version)
    if header_version >= 1:
        if client_id is None:
            header += _SHORT.pack(-1)
        else:
            encoded = client_id.encode()
            header += _SHORT.pack(len(encoded)) + encoded
    if header_version >= 2:
        header += b"\x00"
    return _prefix_length(header, body)


def response_frame(api: Api, version: int, correlation_id: int, body: list[Buffer]) -> list[Buffer]:
    """Return a whole response, ready for the socket, as a few buffers."""
    header = LENGTH.pack(correlation_id)
    if response_header_version(api, version):
        header += b"\x00"
    return _prefix_length(header, body)


def _prefix_length(header: bytes, body: list[Buffer]) -> list[Buffer]:
    if len(body) == 1:  # the usual case: one short buffer
        only = body[0]
        if len(only) < 4096:
            return [LENGTH.pack(len(header) + len(only)) + header + only]
        return [LENGTH.pack(len(header) + len(only)) + header, only]
    size = len(header) + sum(map(len, body))
    return [LENGTH.pack(size) + header, *body]


def response_body_position(api: Api, version: int, frame: Buffer) -> int:
    """Return where the body begins in a response frame (without the length). ProtocolViolation when the header is cut."""
    if not response_header_version(api, version):
        return 4
    try:
        return _skip_tags(frame, 4)
    except IndexError:
        raise ProtocolViolation(f"a response of {len(frame)} bytes ends in its header") from None


class ReceiveBuffers(BufferPool):
    """The memory that all connections of a loop receive into: `shared` for small frames, and large buffers that are used again."""

    __slots__ = ("shared",)

    def __init__(self, receive_bytes: int = RECEIVE_BYTES, pool_bytes: int = _POOL_BYTES) -> None:
        super().__init__(pool_bytes)
        self.shared = memoryview(bytearray(receive_bytes))


def owned_copy(frame: memoryview) -> memoryview:
    """Return the frame in memory of its own."""
    return memoryview(FrameMemory(frame))


FILLING: Final[list[tuple[memoryview, bool]]] = []
"""The result of `FrameReader.receive` when more of a frame came that is not complete: nothing else has changed."""


class FrameReader:
    """Cuts a stream of bytes into frames for `asyncio.BufferedProtocol`, with as few copies as can be.

    Small frames are read many at a time into a buffer that all connections of a loop share (a read is taken out before the
    next one begins); what is left of a cut frame goes to a buffer of its own, into which the rest is then received directly. That
    buffer grows with what arrives: a length is only a promise, and a thousand connections may promise 100 MiB each. Frames are handed
    out as writable memoryviews, valid until the next `get_buffer` unless `owned`: then they begin where their memory, `FrameMemory`, does.

    `first_bytes` bounds how much of the shared buffer is received into until `widen`: of one who is not known yet, few requests are cut.

    `may_take(size)` is asked before a frame takes memory of its own. Where it refuses, the reader is `stalled`: it must not be given bytes
    before `go_on` succeeds.
    """

    __slots__ = (
        "_buffers",
        "_filled",
        "_frame",
        "_head",
        "_may_take",
        "_shared",
        "_size",
        "buffered_bytes",
        "is_cut",
        "max_bytes",
        "stalled",
        "violation",
    )

    def __init__(
        self,
        buffers: ReceiveBuffers,
        max_bytes: int,
        may_take: Callable[[int], bool] | None = None,
        first_bytes: int = RECEIVE_BYTES,
    ) -> None:
        self._buffers, self._may_take = buffers, may_take
        self._shared = buffers.shared if first_bytes >= len(buffers.shared) else buffers.shared[:first_bytes]
        self.max_bytes = max_bytes
        self.buffered_bytes = 0
        """Memory held for a frame that is still arriving."""
        self.is_cut = False
        """True while a frame has begun that is not complete."""
        self.stalled = False
        self._head = b""
        self._frame: memoryview | None = None
        self._filled = 0
        self._size = 0
        self.violation: str | None = None
        """Set at a length that is not in 1..max_bytes: nothing more can be read, the frames before it are good."""

    @property
    def arriving(self) -> tuple[int, int]:
        """Return (bytes that are there, size) of the frame that is cut; a size of 0 where not even that is known."""
        return (self._filled, self._size) if self._frame is not None else (len(self._head), 0)

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return where the next bytes are to be received, however many are expected (see `asyncio.BufferedProtocol`)."""
        if self._frame is not None:
            return self._frame[self._filled :]
        size = len(self._head)
        if not size:
            return self._shared
        self._shared[:size] = self._head
        return self._shared[size:]

    def alone(self, count: int) -> bytes | None:
        """Return `count` received bytes that begin a frame; None in the middle of one. If they are no frame, `receive` is to be called."""
        return bytes(self._shared[:count]) if self._frame is None and not self._head else None

    def receive(self, count: int) -> list[tuple[memoryview, bool]]:
        """Return complete frames after `count` more bytes, each with whether its memory is its own; then look at `violation`."""
        if self._frame is not None:
            self._filled += count
            if self._filled < len(self._frame):
                return FILLING
            if self._filled < self._size:
                self._grow(self._frame)
                return []
            frame, self._frame = self._frame, None
            self.buffered_bytes, self.is_cut = 0, False
            return [(frame, True)]
        frames: list[tuple[memoryview, bool]] = []
        position, end = 0, len(self._head) + count
        shared = self._shared
        self._head = b""
        while end - position >= 4:
            (size,) = LENGTH.unpack_from(shared, position)
            if size <= 0 or size > self.max_bytes:
                self.violation = f"a frame of {size} bytes; allowed are 1 to {self.max_bytes}"
                return frames
            begin = position + 4
            if begin + size > end:
                self._size, self._filled, self.is_cut = size, end - begin, True
                self._grow(shared[begin:end])
                return frames
            frames.append((shared[begin : begin + size], False))
            position = begin + size
        self._head = bytes(shared[position:end])
        self.is_cut = position < end
        return frames

    def go_on(self) -> bool:
        """Take the memory that was refused; False when it is refused again."""
        if self._frame is not None and self.stalled:
            self.stalled = False
            self._grow(self._frame[: self._filled])
        return not self.stalled

    def widen(self) -> None:
        """Receive as much at once as the shared buffer takes, from the next read on."""
        self._shared = self._buffers.shared

    def release(self) -> None:
        """Release what has arrived, and the caller that waits for memory, because nothing more arrives."""
        self._frame = self._may_take = None

    def _grow(self, so_far: memoryview) -> None:
        """Make room for as much again as has arrived, three times over, but never more than the frame."""
        room = min(self._size, max(_FIRST_ROOM_BYTES, _GROWTH * len(so_far)))
        if self._may_take is not None and not self._may_take(room - self.buffered_bytes):
            self.stalled = True
            if self._frame is not None:
                return
            room = max(1, len(so_far))  # what has arrived must go somewhere
        self._frame = self._buffers.borrow(room, self._size)
        self._frame[: len(so_far)] = so_far
        self.buffered_bytes = len(self._frame)
