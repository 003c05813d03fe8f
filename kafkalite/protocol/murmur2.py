"""Kafka's murmur2 hash and the partition that Java clients choose for a key.

The hash is the 32-bit MurmurHash2 with the seed and constants of Kafka's default partitioner. The partition is the hash
without its sign bit, modulo the number of partitions; every client that wants to agree with Java must do the same.
"""

from __future__ import annotations

import struct

from kafkalite.types import Buffer

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: Buffer) -> int:
    """Return the hash of `data` as an unsigned 32-bit number."""
    length = len(data)
    whole = length & ~3
    hashed = _SEED ^ length
    for (word,) in struct.iter_unpack("<I", memoryview(data)[:whole]):
        word = word * _MULTIPLIER & _MASK
        word ^= word >> 24
        hashed = hashed * _MULTIPLIER & _MASK ^ word * _MULTIPLIER & _MASK
    if whole < length:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * _MULTIPLIER & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15
