"""Encoding of keys and values of internal topics: big endian numbers, strings and byte strings with lengths.

string: length i16 (-1 null), UTF-8    bytes: length i32 (-1 null)    array: count i32 (-1 null)
in flexible versions (KIP-482): lengths and counts are unsigned varints of length + 1 (0 null), and each structure ends with tags
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_I8, _I16, _I32, _I64 = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


def encode_name_key(version: int, name: str) -> bytes:
    """Return a key of a version and one string."""
    encoded = name.encode()
    return b"".join((_I16.pack(version), _I16.pack(len(encoded)), encoded))


def decode_name_key(key: bytes) -> str:
    """Return the string of a key of `encode_name_key`. Raises ValueError."""
    return FieldReader(key, 2).string()


class FieldWriter:
    """Writes fields of versions that are not flexible, the only ones that are written."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def i8(self, number: int) -> None:
        self._parts.append(_I8.pack(number))

    def i16(self, number: int) -> None:
        self._parts.append(_I16.pack(number))

    def i32(self, number: int) -> None:
        self._parts.append(_I32.pack(number))

    def i64(self, number: int) -> None:
        self._parts.append(_I64.pack(number))

    def i32s(self, numbers: Sequence[int]) -> None:
        """Write an array."""
        self._parts.append(struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))

    def string(self, text: str | None) -> None:
        if text is None:
            self._parts.append(b"\xff\xff")
            return
        encoded = text.encode()
        self._parts += (_I16.pack(len(encoded)), encoded)

    def data(self, content: bytes | None) -> None:
        if content is None:
            self._parts.append(b"\xff\xff\xff\xff")
            return
        self._parts += (_I32.pack(len(content)), content)

    def to_bytes(self) -> bytes:
        return b"".join(self._parts)


class FieldReader:
    """Reads fields one after the other. Raises ValueError at the end of the data or for an impossible length."""

    def __init__(self, data: bytes, position: int = 0, *, flexible: bool = False) -> None:
        self._data, self._position, self._flexible = data, position, flexible

    @property
    def position(self) -> int:
        """Return the position of the next field."""
        return self._position

    def _read_bytes(self, length: int) -> bytes:
        start, end = self._position, self._position + length
        if length < 0 or end > len(self._data):
            raise ValueError(f"{length} bytes at position {start} of {len(self._data)}")
        self._position = end
        return self._data[start:end]

    def i8(self) -> int:
        return int.from_bytes(self._read_bytes(1), "big", signed=True)

    def i16(self) -> int:
        return int.from_bytes(self._read_bytes(2), "big", signed=True)

    def i32(self) -> int:
        return int.from_bytes(self._read_bytes(4), "big", signed=True)

    def i64(self) -> int:
        return int.from_bytes(self._read_bytes(8), "big", signed=True)

    def i32s(self) -> tuple[int, ...]:
        """Read an array; null is read as empty."""
        count = self.count()
        return struct.unpack(f">{count}i", self._read_bytes(4 * count))

    def _unsigned_varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._read_bytes(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 28:
                raise ValueError("an unsigned varint of more than five bytes")

    def nullable_string(self) -> str | None:
        length = self._unsigned_varint() - 1 if self._flexible else self.i16()
        return None if length == -1 else self._read_bytes(length).decode()

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ValueError("null where a string must be")
        return text

    def data(self) -> bytes:
        """Read a byte string; null is read as empty."""
        length = self._unsigned_varint() - 1 if self._flexible else self.i32()
        return b"" if length == -1 else self._read_bytes(length)

    def count(self) -> int:
        """Read the number of items of an array; null is read as none."""
        count = self._unsigned_varint() - 1 if self._flexible else self.i32()
        if count > len(self._data) - self._position:
            raise ValueError(f"{count} items in {len(self._data) - self._position} bytes")
        return max(count, 0)

    def skip_tags(self) -> None:
        """Skip the tagged fields at the end of a structure in flexible versions."""
        if self._flexible:
            for _ in range(self._unsigned_varint()):
                self._unsigned_varint()
                self._read_bytes(self._unsigned_varint())
