"""ZooKeeper's multiRead (ZOOKEEPER-3402, since 3.6): reads many znodes by one request, which kazoo does not have.

A request of its own costs kazoo some 200 µs of processor for each znode, a multiRead a twentieth of that. The response has a result for
each path: an error, such as NoNode, is that path's only. No watches are armed.

A server before 3.6 answers a request that it does not know with Unimplemented and closes the connection; the session goes on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import kazoo.exceptions
from kazoo.client import KazooClient
from kazoo.protocol.serialization import GetData

from zk.kazoo_adapter.kazoo_bridge import Answer
from zk.store import Stat

Found: TypeAlias = tuple[bytes, Stat] | Exception
"""The result for one path: data and stat, or kazoo's error."""

_PATHS_TOGETHER = 250
"""Paths in one multiRead; 250 states of partitions are some 70 KB."""
_BYTES_TOGETHER = 768 * 1024
"""Bytes of znodes in one multiRead. Servers do not bound responses: one of 250 large topics might take longer than a session lasts."""
_PATH_BYTES_TOGETHER = 256 * 1024
"""Bytes of paths in one multiRead, far below the 1 MiB (jute.maxbuffer) above which a server closes the connection."""
_SMALL_BYTES = 1024
"""Data of a znode whose size is not known."""
_RESULT_BYTES = 81
"""All of a result besides the data."""
_LARGE_ZNODES = 100_000
"""Znodes whose sizes are known at most."""

_HEADER = struct.Struct("!iBi")
"""Before each operation or result: its kind, whether it is the end, and an error."""
_LENGTH = struct.Struct("!i")
_STAT = struct.Struct("!qqqqiiiqiiq")
_ERROR_RESULT = -1
_END = _HEADER.pack(-1, 1, -1)
_READ = _HEADER.pack(GetData.type, 0, -1)
_NO_WATCH = b"\0"


@dataclass(frozen=True, slots=True)
class MultiRead:
    """A request in the form that kazoo's connection sends: with a `type`, `serialize` and `deserialize`."""

    paths: Sequence[str]
    """With the chroot."""

    type: ClassVar[int] = 22

    def send(self, client: KazooClient) -> Answer:
        """Send the request and return its answer, a list of `Found`."""
        answer: Answer = client.handler.async_result()
        client._call(self, answer)
        return answer

    def serialize(self) -> bytes:
        """Return the read operations and the end marker."""
        operations: list[bytes] = []
        for path in self.paths:
            encoded = path.encode()
            operations += (_READ, _LENGTH.pack(len(encoded)), encoded, _NO_WATCH)
        return b"".join((*operations, _END))

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> list[Found]:
        """Return the results in a response, from `offset` on. Called on kazoo's thread."""
        results: list[Found] = []
        while True:
            kind, is_end, _ = _HEADER.unpack_from(answer, offset)
            offset += _HEADER.size
            if is_end:
                return results
            (number,) = _LENGTH.unpack_from(answer, offset)
            offset += _LENGTH.size
            if kind == _ERROR_RESULT:
                results.append(kazoo.exceptions.EXCEPTIONS[number]())
                continue
            end = offset + max(number, 0)
            results.append((answer[offset:end], _read_stat(answer, end)))
            offset = end + _STAT.size


class ZnodeSizes:
    """Sizes of the large znodes that were read, so that not too many of them are asked for by one multiRead.

    A znode counts as small until it was read by itself, as the controller reads all topics, or with others.
    """

    def __init__(self, max_request_bytes: int) -> None:
        self._path_bytes = min(_PATH_BYTES_TOGETHER, max_request_bytes // 2)
        self._together_bytes = min(_BYTES_TOGETHER, max_request_bytes)
        self._large: dict[str, int] = {}

    def note(self, path: str, data_bytes: int) -> None:
        """Remember the size of a large znode, and forget that of one that is large no longer."""
        if data_bytes <= _SMALL_BYTES:
            self._large.pop(path, None)
        elif len(self._large) < _LARGE_ZNODES or path in self._large:
            self._large[path] = data_bytes

    def split_paths(self, paths: Sequence[str]) -> Iterator[list[str]]:
        """Yield the paths in groups, each for one request whose response has at most `jute.maxbuffer` bytes, as far as sizes are known."""
        some: list[str] = []
        path_bytes = size_bytes = 0
        for path in paths:
            own_path_bytes, own_bytes = len(path.encode()), self._large.get(path, _SMALL_BYTES) + _RESULT_BYTES
            if some and (
                len(some) == _PATHS_TOGETHER
                or path_bytes + own_path_bytes > self._path_bytes
                or size_bytes + own_bytes > self._together_bytes
            ):
                yield some
                some, path_bytes, size_bytes = [], 0, 0
            some.append(path)
            path_bytes += own_path_bytes
            size_bytes += own_bytes
        if some:
            yield some


def _read_stat(answer: bytes, offset: int) -> Stat:
    czxid, mzxid, ctime, mtime, version, cversion, _, owner, length, children, _ = _STAT.unpack_from(answer, offset)
    return Stat(czxid, mzxid, ctime, mtime, version, cversion, owner, length, children)
