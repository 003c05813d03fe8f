"""The encoded records of a batch as messages of magic 0 or 1, without an object for each: what is done most often for old consumers.

This module is made to be compiled (see `kafkalite.compiled`), after which a record takes a fifth of the time; `down_conversion` uses it
only then. It takes what nearly all producers write. What may be read otherwise, or not at all, is refused with ValueError, IndexError or
OverflowError, and the exact walk (`record_walk`) decides, whose results tests hold it to. Layouts are in `records` and `legacy_messages`.
"""

from __future__ import annotations

from typing import Final

from isal.isal_zlib import crc32
from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

_crc32: Final = crc32
"""Compiled code finds this one without looking it up."""
_CRC_BYTES: Final = 4
_SIGN: Final = 1 << 31
_ALL: Final = 1 << 32
_HALF_OF_LONG: Final = 1 << 62
_NO_REST: Final = b""
_HEAD_BYTES: Final = 2
_INT_BYTES: Final = 5
_LONG_BYTES: Final = 10


class RecordRewriter:
    """Writes the records of one batch after the other as messages of `magic`; its memory serves for all of them."""

    def __init__(self, magic: int) -> None:
        self._magic: i64 = magic
        self._messages = BytesWriter()
        self._message = BytesWriter()
        self._data = b""
        self._position: i64 = 0
        self._left: i64 = 0
        self._base_offset: i64 = 0
        self._base_timestamp: i64 = 0
        self._has_append_time = False
        self._append_time: i64 = 0
        self._first_offset: i64 = 0
        self._is_relative = False
        self._relative_to: i64 = 0
        self._last_offset: i64 = -1

    def begin(
        self,
        data: bytes,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
        attributes: int,
        first_offset: int,
        is_relative: bool,
    ) -> None:
        """Have the `count` records in `data` written with `attributes`, without those below `first_offset`.

        `append_time`, if there is one, stands for all timestamps. With `is_relative` offsets count from the first record that is
        written (KIP-31).
        """
        self._data = data
        self._position = 0
        self._left = count
        self._base_offset = base_offset
        self._base_timestamp = base_timestamp
        self._has_append_time = append_time is not None
        self._append_time = append_time or 0
        self._first_offset = first_offset
        self._is_relative = is_relative
        self._relative_to = 0
        self._last_offset = -1
        self._messages.truncate(0)
        message = self._message
        message.truncate(0)
        message.append(int(self._magic))
        message.append(attributes)

    @property
    def size_bytes(self) -> int:
        return len(self._messages)

    @property
    def last_offset(self) -> int:
        """Of the record that was written last; -1 before that."""
        return self._last_offset

    def messages(self) -> bytes:
        return self._messages.getvalue()

    def wrapper(self, attributes: int, timestamp: int, value: bytes) -> bytes:
        """The message around all that were written, which `value` is in compressed form; nothing may be added any more."""
        message = self._message
        message.truncate(1)
        message.append(attributes)
        if self._magic:
            write_i64_be(message, timestamp)
        write_i32_be(message, -1)
        write_i32_be(message, i32(len(value)))
        self._messages.truncate(0)
        self._end_message(self._last_offset, value)
        return self._messages.getvalue()

    def add(self, at_once: int) -> bool:
        """Write the next so many records; are there more?"""
        some: i64 = at_once
        while some > 0 and self._left > 0:
            self._add()
            some -= 1
            self._left -= 1
        return self._left > 0

    def _varint(self, most_bytes: i64) -> i64:
        data, position = self._data, self._position
        raw: i64 = 0
        shift: i64 = 0
        limit: i64 = position + most_bytes
        while True:
            byte: i64 = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if position >= limit:
                raise ValueError("a varint that is too long")
        if shift == 63 and byte > 1:
            raise ValueError("a varint of more than 64 bits")
        self._position = position
        half: i64 = raw >> 1
        if raw < 0:  # its highest bit is no sign
            half += _HALF_OF_LONG
            half += _HALF_OF_LONG
        return half ^ -(raw & 1)

    def _add(self) -> None:
        data = self._data
        length: i64 = self._varint(_INT_BYTES)
        end: i64 = self._position + length
        if length < 0 or end > len(data):
            raise ValueError("a record longer than what is left, or negative")
        self._position += 1  # attributes, which nobody uses
        timestamp: i64 = self._base_timestamp + self._varint(_LONG_BYTES)
        if self._has_append_time:
            timestamp = self._append_time
        offset: i64 = self._base_offset + self._varint(_INT_BYTES)
        if offset < self._base_offset:
            raise ValueError("an offset before the first one")
        key_size: i64 = self._varint(_INT_BYTES)
        key: i64 = self._position
        if key_size > end - key:
            raise ValueError("a key longer than its record")
        if key_size > 0:
            self._position += key_size
        size: i64 = self._varint(_INT_BYTES)
        value: i64 = self._position
        if size > end - value:
            raise ValueError("a value longer than its record")
        if size > 0:
            self._position += size
        self._skip_headers(end)
        if offset < self._first_offset:
            return
        message = self._message
        message.truncate(_HEAD_BYTES)
        if self._magic:
            write_i64_be(message, timestamp)
        if key_size < 0:
            write_i32_be(message, -1)
        else:
            write_i32_be(message, i32(key_size))
            message.write(data[key : key + key_size])
        if size < 0:
            write_i32_be(message, -1)
        else:
            write_i32_be(message, i32(size))
            message.write(data[value : value + size])
        if self._is_relative and self._last_offset < 0:
            self._relative_to = offset
        self._end_message(offset - self._relative_to, _NO_REST)
        self._last_offset = offset

    def _end_message(self, offset: i64, rest: bytes) -> None:
        """Put what was written of a message, and the rest of it, behind its offset, length and CRC."""
        body = self._message.getvalue()
        checked = _crc32(body)
        if rest:
            checked = _crc32(rest, checked)
        crc: i64 = checked
        messages = self._messages
        write_i64_be(messages, offset)
        write_i32_be(messages, i32(_CRC_BYTES + len(body) + len(rest)))
        write_i32_be(messages, i32(crc - _ALL if crc >= _SIGN else crc))
        messages.write(body)
        if rest:
            messages.write(rest)

    def _skip_headers(self, end: i64) -> None:
        count: i64 = self._varint(_INT_BYTES)
        if count < 0 or count > end - self._position:
            raise ValueError("more headers than a record has room for")
        while count > 0:
            size: i64 = self._varint(_INT_BYTES)
            if size < 0 or size > end - self._position:
                raise ValueError("a header without a key, or a longer one than its record")
            self._position += size
            size = self._varint(_INT_BYTES)
            if size > end - self._position:
                raise ValueError("a header longer than its record")
            if size > 0:
                self._position += size
            count -= 1
        if self._position != end:
            raise ValueError("the parts of a record do not end where it ends")
