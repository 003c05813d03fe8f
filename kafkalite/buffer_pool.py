"""Large buffers that are reused: memory that was used before need not be mapped and cleared by the system again.

For what is read from files and sent, that was two thirds of the time. Buffers return by themselves: a bytearray refuses to change its
size while a view of it exists, so one that does not refuse is free.
"""

from __future__ import annotations

from typing import Final

from kafkalite.types import FrameMemory

_KEPT_MAX: Final = 64
"""Limit of the buffers that are searched for a free one."""


class BufferPool:
    """Keeps buffers of `most_bytes` together; the oldest are dropped first. Used by one thread."""

    __slots__ = ("_kept", "_most_bytes", "_was_used")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: list[FrameMemory] = []
        self._was_used = False

    @property
    def kept_bytes(self) -> int:
        """Return the memory of the kept buffers, lent or not."""
        return sum(map(len, self._kept))

    def borrow(self, size: int, most: int) -> memoryview:
        """Return a buffer of at least `size` bytes, and of more, up to `most`, only as far as memory is there already.

        Its contents are undefined.
        """
        self._was_used = True
        if size == most:
            for each in reversed(self._kept):  # mostly the one that was borrowed last is free again
                if len(each) == size and _is_free(each):
                    return memoryview(each)[:size]
        free = [each for each in self._kept if len(each) >= size and _is_free(each)]
        if free:
            found = max(free, key=len) if most > size else min(free, key=len)
            return memoryview(found)[: min(most, len(found))]
        made = FrameMemory(size)
        if size <= self._most_bytes // 2:
            self._kept.append(made)
            while len(self._kept) > _KEPT_MAX or self.kept_bytes > self._most_bytes:
                del self._kept[0]
        return memoryview(made)[:size]

    def release_unused(self) -> None:
        """Forget the buffers that are free, if none was lent since the last call."""
        if not self._was_used:
            self._kept = [each for each in self._kept if not _is_free(each)]
        self._was_used = False


def _is_free(buffer: bytearray) -> bool:
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
