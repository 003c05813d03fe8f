"""Which znodes may be read together by one multiRead (ZOOKEEPER-3402, since 3.6). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
