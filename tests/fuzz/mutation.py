"""How a fuzzer changes bytes that are right: bits, lengths, counts, cuts, repetitions, and pieces of other seeds. Chance is an argument."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

INTERESTING = (
    *(number.to_bytes(2, "big", signed=True) for number in (-(2**15), -1, 0, 1, 2**15 - 1)),
    *(number.to_bytes(4, "big", signed=True) for number in (-(2**31), -2, -1, 0, 1, 2**16, 2**31 - 1)),
    *(number.to_bytes(8, "big", signed=True) for number in (-(2**63), -1, 0, 2**31, 2**63 - 1)),
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 10,
    b"\x80\x80\x80\x80\x80\x01",
    b"\xed\xa0\x80",
    b"\xc3\x28",
)
"""Numbers at the edges of their types, varints at and beyond theirs, text that is no UTF-8."""

_BYTES = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)


def mutate(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """`data` changed in one to four ways; `others` are where foreign pieces come from."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        rng.choice(_WAYS)(rng, changed, others)
    return bytes(changed)


def _flip_a_bit(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set_a_byte(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((*_BYTES, rng.randrange(256)))


def _add_to_a_byte(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    """What a length or a count becomes when it is off by a few."""
    if data:
        position = rng.randrange(len(data))
        data[position] = data[position] + rng.choice((-2, -1, 1, 2, 16)) & 0xFF


def _set_a_number(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    number = rng.choice(INTERESTING)
    position = rng.randrange(len(data) + 1)
    data[position : position + len(number)] = number


def _cut(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _remove(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    position = rng.randrange(len(data) + 1)
    del data[position : position + rng.randrange(1, 17)]


def _insert(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    position = rng.randrange(len(data) + 1)
    data[position:position] = rng.choice((bytes(rng.randrange(1, 17)), rng.randbytes(rng.randrange(1, 17))))


def _repeat(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    position = rng.randrange(len(data) + 1)
    piece = data[position : position + rng.randrange(1, 33)]
    data[position:position] = piece * rng.choice((1, 2, 10, 50))


def _splice(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    other = rng.choice(others)
    begin = rng.randrange(len(other) + 1)
    position = rng.randrange(len(data) + 1)
    data[position : position + rng.choice((0, 16, len(data)))] = other[begin : begin + rng.randrange(1, 129)]


_WAYS: tuple[Callable[[random.Random, bytearray, Sequence[bytes]], None], ...] = (
    _flip_a_bit,
    _flip_a_bit,
    _set_a_byte,
    _set_a_byte,
    _add_to_a_byte,
    _add_to_a_byte,
    _set_a_number,
    _set_a_number,
    _cut,
    _remove,
    _insert,
    _repeat,
    _splice,
)
