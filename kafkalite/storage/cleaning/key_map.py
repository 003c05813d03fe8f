"""The last offset of each key, in memory that is bounded in bytes: what compaction remembers of the records it looks at.

An open-addressed table of slots of 24 bytes (16 of the key's 128-bit murmur3 digest, 8 of its offset plus one, 0 in a free slot),
in anonymous memory that the system gives only where slots are written, and gets back at `close`. Keys themselves are not
kept: two keys of one digest would count as one, which at 5 million keys happens once in 10^25 logs, as with Kafka's MD5.
"""

from __future__ import annotations

from mmap import mmap
from typing import Final

from mmh3 import mmh3_x64_128_utupledigest as digest_of

from kafkalite.errors import ensure

SLOT_BYTES: Final = 24
_WORDS: Final = 3
"""Words of 8 bytes in a slot: first and second half of the digest, offset plus one."""


class KeyMap:
    """Offsets by key, for up to `capacity` keys: the share `load_factor` of the slots that fit into `memory_bytes`.

    `expected_keys` bounds how many keys there can be, so that a small log does not spread over a large table.
    """

    __slots__ = ("_end", "_memory", "_slots", "_table", "capacity", "size")

    def __init__(self, memory_bytes: int, load_factor: float, expected_keys: int) -> None:
        ensure(0 < load_factor <= 1, f"load factor {load_factor}")
        slots = min(memory_bytes // SLOT_BYTES, int(expected_keys / load_factor) + 2)
        ensure(slots >= 2, f"{memory_bytes} bytes are no room for a key map")
        self._slots = slots
        self._end = slots * _WORDS
        self._memory = mmap(-1, slots * SLOT_BYTES)
        self._table = memoryview(self._memory).cast("Q")
        self.capacity = max(1, min(slots - 1, int(slots * load_factor)))
        self.size = 0

    def put(self, key: bytes, offset: int) -> bool:
        """Note the offset of a key, later ones over earlier ones; False, changing nothing, for a new key when the map is full."""
        high, low = digest_of(key)
        table = self._table
        place = low % self._slots * _WORDS
        while table[place + 2]:
            if table[place] == high and table[place + 1] == low:
                table[place + 2] = offset + 1
                return True
            place += _WORDS
            if place == self._end:
                place = 0
        if self.size >= self.capacity:
            return False
        table[place], table[place + 1], table[place + 2] = high, low, offset + 1
        self.size += 1
        return True

    def get(self, key: bytes) -> int:
        """Return the last offset noted of a key, -1 when there is none."""
        high, low = digest_of(key)
        table = self._table
        place = low % self._slots * _WORDS
        while stored := table[place + 2]:
            if table[place] == high and table[place + 1] == low:
                return stored - 1
            place += _WORDS
            if place == self._end:
                place = 0
        return -1

    @property
    def memory_bytes(self) -> int:
        return self._slots * SLOT_BYTES

    def close(self) -> None:
        self._table.release()
        self._memory.close()
