"""ZooKeeper's encoding Jute: big-endian numbers, strings and buffers with a length of four bytes. No I/O.

A server's message is untrusted: what does not fit raises MalformedError, and nothing is allocated by an announced length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from zk.store import Stat

INT: Final = struct.Struct(">i")
STAT: Final = struct.Struct(">qqqqii4xqii8x")
"""Without the version of the ACL, and the zxid of the last change of children."""
_NO_BUFFER: Final = INT.pack(-1)


class MalformedError(Exception):
    """Raised for a message that is not ZooKeeper's."""


def encode_buffer(data: bytes | None) -> bytes:
    """Return a buffer; None is one that is absent, which is not the same as an empty one."""
    return _NO_BUFFER if data is None else INT.pack(len(data)) + data


def encode_string(text: str) -> bytes:
    encoded = text.encode()
    return INT.pack(len(encoded)) + encoded


def encode_strings(texts: Iterable[str]) -> bytes:
    encoded = [encode_string(text) for text in texts]
    return INT.pack(len(encoded)) + b"".join(encoded)


def decode_int(message: bytes, offset: int) -> tuple[int, int]:
    """Return a number and the offset behind it, as all `decode_…`. Raises MalformedError."""
    try:
        return INT.unpack_from(message, offset)[0], offset + INT.size
    except struct.error:
        raise MalformedError("a number is cut off") from None


def decode_buffer(message: bytes, offset: int) -> tuple[bytes, int]:
    """Return a buffer, empty for an absent one. Raises MalformedError."""
    size_bytes, start = decode_int(message, offset)
    end = start + max(size_bytes, 0)
    if end > len(message):
        raise MalformedError(f"{size_bytes} bytes are announced, {len(message) - start} are there")
    return message[start:end], end


def decode_string(message: bytes, offset: int) -> tuple[str, int]:
    """Return a string. Raises MalformedError, also when it is not UTF-8."""
    encoded, end = decode_buffer(message, offset)
    try:
        return encoded.decode(), end
    except UnicodeDecodeError:
        raise MalformedError("a string is not UTF-8") from None


def decode_strings(message: bytes, offset: int) -> tuple[list[str], int]:
    """Return a list of strings, such as the names of children. Raises MalformedError."""
    count, offset = decode_int(message, offset)
    texts: list[str] = []
    unpack, size_bytes = INT.unpack_from, len(message)
    try:
        for _ in range(count):
            start = offset + 4
            offset = start + unpack(message, offset)[0]
            if not start <= offset <= size_bytes:
                raise MalformedError("a string is longer than the message")
            texts.append(message[start:offset].decode())
    except (struct.error, UnicodeDecodeError):
        raise MalformedError("a list of strings is cut off or not UTF-8") from None
    return texts, offset


def decode_stat(message: bytes, offset: int) -> tuple[Stat, int]:
    """Return the metadata of a znode. Raises MalformedError."""
    try:
        return Stat(*STAT.unpack_from(message, offset)), offset + STAT.size
    except struct.error:
        raise MalformedError("a stat is cut off") from None
