"""Zig-zag varints, in which records are written: seven bits in a byte, the lowest first, the sign in the lowest bit."""

from __future__ import annotations

_INT_BYTES = 5
_LONG_SHIFT = 63
_HALF = 1 << 63


def wrap_long(number: int) -> int:
    """Return `number` as 64 bits hold it, as Java adds longs: behind the largest comes the smallest."""
    return number if -_HALF <= number < _HALF else (number + _HALF) % (2 * _HALF) - _HALF


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Return a varint of up to 64 bits (Kafka's varlong) and the position behind it.

    Raises IndexError at the end of `data`, ValueError when it takes more than ten bytes.
    """
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
        if shift > _LONG_SHIFT:
            raise ValueError("a varint of more than ten bytes")


def read_varint32(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read a number of 32 bits (length, count, offset delta) as `read_varint` does. ValueError when it takes more than five bytes."""
    number, end = read_varint(data, position)
    if end - position > _INT_BYTES:
        raise ValueError("a varint of more than five bytes where a number of 32 bits belongs")
    return number, end


def write_varint(output: bytearray, number: int) -> None:
    """Append `number`; numbers of 64 bits are the same thing longer."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    while rest > 0x7F:
        output.append(rest & 0x7F | 0x80)
        rest >>= 7
    output.append(rest)
