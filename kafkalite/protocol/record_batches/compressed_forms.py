"""The forms of compressed records that `batch_codecs` lists, written and read.

A few hundred bytes can stand for gigabytes, so output never grows past the caller's limit: memory is taken for the size
that the data announces, or in growing steps when it announces none, and decompression stops where that memory ends.

cramjam works without the interpreter's lock, but Python holds it while it fills memory with zeros, copies it or gives it back: 100 ms for
100 MiB. So what is larger than `_IN_ONE_GO_BYTES` is decompressed into memory of the kernel's and stays there: an mmap.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import cramjam

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.batch_codecs import Codec, DecompressedTooLarge
from kafkalite.types import Buffer

_DEFAULT_LEVEL: Final = {Codec.GZIP: 6, Codec.LZ4: 9, Codec.ZSTD: 3}

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_START: Final = struct.Struct(">8siii")
"""The header, and the length of the first block."""
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HEADER: Final = _LZ4_MAGIC + b"\x60\x40\x82"
"""Version 1, independent blocks, no checksums; blocks of at most 64 KiB; the descriptor's checksum."""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_START: Final = struct.Struct("<7sI")
"""The header, and the length of the first block."""
_LZ4_STORED: Final = 0x80000000
_LZ4_END: Final = bytes(4)

_LONGEST_BLOCK_BYTES: Final = _LZ4_BLOCK_BYTES + 1024
"""Longest block of lz4 or snappy, with its frame, that becomes no more than `_LZ4_BLOCK_BYTES`."""
_spare: Final[list[bytearray]] = []
"""Memory to decompress into, one for each thread that did so at a time."""

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_FIRST_GUESS_BYTES: Final = 64 * 1024
_IN_ONE_GO_BYTES: Final = 4 * 1024 * 1024
"""More than a batch of produced records mostly becomes; filled with zeros in one to four milliseconds."""
_LEAST_BLOCK_BYTES: Final = 256
"""Bytes that a gzip member, or a block of xerial's framing, counts for at least: an empty one still takes some microseconds."""
_TRANSIT_LEVEL: Final = 3
"""ISA-L's highest."""
_GZIP_FORM: Final = 16 + zlib.MAX_WBITS
_GZIP_MEMBER: Final = b"\x1f\x8b\x08"
_GZIP_MEMBER_BYTES_MIN: Final = 20
_OUTPUT_FULL: Final = "failed to write whole buffer"

_LENGTH = struct.Struct(">i")
_LITTLE_LENGTH = struct.Struct("<I")


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Do as `compression.compress` does."""
    chosen = _DEFAULT_LEVEL.get(codec, 0) if level is None or level == -1 else level
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=chosen))
        case Codec.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Codec.LZ4:
            return _compress_lz4(data, chosen)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=chosen))


def compress_for_transit(codec: int, data: Buffer) -> bytes:
    """Compress `data` at the default level; gzip takes a quarter of zlib's time and at most 5 % more bytes."""
    packed = _FOR_TRANSIT.get(codec)
    return compress(Codec(codec), data) if packed is None else packed(data)


def _gzip_for_transit(data: Buffer) -> bytes:
    from isal import isal_zlib  # commands that start in a hurry do without it

    return isal_zlib.compress(data, level=_TRANSIT_LEVEL, wbits=_GZIP_FORM)


def decompress(codec: int, data: Buffer, limit_bytes: int) -> bytes | bytearray:
    """Do as `compression.decompress` does."""
    try:
        match codec:
            case Codec.GZIP:
                _check_gzip_members(data, limit_bytes)
                return _decompress_bounded(cramjam.gzip.decompress_into, data, _gzip_size(data), limit_bytes)
            case Codec.SNAPPY:
                return _decompress_snappy(memoryview(data), limit_bytes)
            case Codec.LZ4:
                plain = decompress_block(codec, data, limit_bytes)
                if plain is not None:
                    return plain
                return _decompress_bounded(cramjam.lz4.decompress_into, data, _lz4_size(data), limit_bytes)
            case Codec.ZSTD:
                return _decompress_bounded(cramjam.zstd.decompress_into, data, _zstd_size(data), limit_bytes)
    except (cramjam.DecompressionError, struct.error, ValueError) as problem:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"records are no {Codec(codec).name.lower()} data: {problem}"
        ) from None
    raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {codec}")


def _decompress_bounded(
    decompress_into: Callable[[Any, Any], int], data: Buffer, announced_bytes: int | None, limit_bytes: int
) -> bytes | bytearray:
    """Decompress into memory of the announced size, or of growing guesses, never above the limit."""
    if announced_bytes is not None and announced_bytes > limit_bytes:
        raise DecompressedTooLarge(limit_bytes)
    capacity = min(limit_bytes, announced_bytes or max(_FIRST_GUESS_BYTES, 4 * len(data)))
    while capacity <= _IN_ONE_GO_BYTES:
        output = bytearray(capacity)
        try:
            size = decompress_into(data, output)
        except cramjam.DecompressionError as problem:
            if _OUTPUT_FULL not in str(problem):
                raise
            if capacity >= limit_bytes:
                raise DecompressedTooLarge(limit_bytes) from None
            capacity = min(limit_bytes, 4 * capacity)
        else:
            del output[size:]
            return output
    return _decompress_apart(decompress_into, data, limit_bytes)


def _decompress_apart(decompress_into: Callable[[Any, Any], int], data: Any, limit_bytes: int) -> bytes:
    """Decompress much into memory of the kernel's, which is only taken where it is written.

    An mmap is read as bytes are: by index, by slice, as a buffer.
    """
    whole = mmap.mmap(-1, limit_bytes)
    try:
        size = decompress_into(data, whole)
    except cramjam.DecompressionError as problem:
        raise DecompressedTooLarge(limit_bytes) if _OUTPUT_FULL in str(problem) else problem from None
    if size <= _IN_ONE_GO_BYTES:
        return whole[:size]
    whole.resize(size)
    return cast(bytes, whole)


def _check_gzip_members(data: Buffer, limit_bytes: int) -> None:
    most = 1 + limit_bytes // _LEAST_BLOCK_BYTES
    if len(data) > most * _GZIP_MEMBER_BYTES_MIN and bytes(data).count(_GZIP_MEMBER) > most:
        raise DecompressedTooLarge(limit_bytes)


def _gzip_size(data: Buffer) -> int | None:
    """Return the size that the last member announces; right for the single member that Kafka's clients write."""
    size: int = _LITTLE_LENGTH.unpack_from(data, len(data) - 4)[0]
    return size if 0 < size < 1032 * len(data) else None  # deflate shrinks by no more; the rest is another member's


def _lz4_size(data: Buffer) -> int | None:
    if bytes(data[:4]) != _LZ4_MAGIC or len(data) < 14 or not data[4] & 0x08:
        return None
    return int.from_bytes(data[6:14], "little")


def decompress_block(codec: int, data: Buffer, limit_bytes: int) -> bytes | None:
    """Return what lz4 or snappy in one block, as clients write most batches, stands for: half the time of a frame decoder at 16 KiB.

    Return None for anything else, also for damaged data and for data that stands for more than `limit_bytes`.
    """
    if len(data) > _LONGEST_BLOCK_BYTES or limit_bytes < _LZ4_BLOCK_BYTES:
        return None
    try:
        return _decompress_lz4_block(data) if codec == Codec.LZ4 else _decompress_snappy_block(data)
    except (cramjam.DecompressionError, struct.error):
        return None


def _decompress_lz4_block(data: Buffer) -> bytes | None:
    header, length = _LZ4_START.unpack_from(data)
    start, end = _LZ4_START.size, len(data) - len(_LZ4_END)
    if header != _LZ4_HEADER or start + length != end or data[end:] != _LZ4_END:
        return None
    return bytes(_write_by_spare(cramjam.lz4.decompress_block_into, data[start:end]))


def _decompress_snappy_block(data: Buffer) -> bytes | None:
    start = 0
    magic, _, _, length = _XERIAL_START.unpack_from(data)
    if magic == _XERIAL_MAGIC:
        start = _XERIAL_START.size
        if start + length != len(data):
            return None
    return bytes(_write_by_spare(cramjam.snappy.decompress_raw_into, data[start:]))


def _write_by_spare(write_into: Callable[[Any, Any], int], data: Buffer) -> bytearray:
    """Return what `write_into` makes of `data`, at most `_LZ4_BLOCK_BYTES`, by way of kept memory: new memory is filled with zeros."""
    try:
        output = _spare.pop()
    except IndexError:
        output = bytearray(_LZ4_BLOCK_BYTES)
    try:
        return output[: write_into(data, output)]
    finally:
        _spare.append(output)


def _zstd_size(data: Buffer) -> int | None:
    """Return the Frame_Content_Size of a zstd frame header (RFC 8878, 3.1.1.1), None when it is not given."""
    if bytes(data[:4]) != _ZSTD_MAGIC or len(data) < 6:
        return None
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    position = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    if not width or len(data) < position + width:
        return None
    return int.from_bytes(data[position : position + width], "little") + (256 if width == 2 else 0)


def _compress_snappy(data: Buffer) -> bytes:
    if 0 < len(data) <= _XERIAL_BLOCK_BYTES:
        block: Any = _write_by_spare(cramjam.snappy.compress_raw_into, data)
        return b"".join((_XERIAL_HEADER, _LENGTH.pack(len(block)), block))
    parts: list[Any] = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES])
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit_bytes: int) -> bytes | bytearray:
    plain = decompress_block(Codec.SNAPPY, data, limit_bytes)
    if plain is not None:
        return plain
    is_framed = bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC
    blocks = list(_xerial_blocks(data, limit_bytes)) if is_framed else [data]
    sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
    size = sum(sizes)
    if size > limit_bytes:
        raise DecompressedTooLarge(limit_bytes)
    if size <= _IN_ONE_GO_BYTES:
        return b"".join([cramjam.snappy.decompress_raw(block) for block in blocks])

    def decompress_into(blocks: list[memoryview], output: mmap.mmap) -> int:
        position = 0
        with memoryview(output) as view:
            for block, length in zip(blocks, sizes, strict=True):
                with view[position : position + length] as part:
                    position += cramjam.snappy.decompress_raw_into(block, part)
        return position

    return _decompress_apart(decompress_into, blocks, size)


def _xerial_blocks(data: memoryview, limit_bytes: int) -> Iterator[memoryview]:
    position, left = len(_XERIAL_HEADER), 1 + limit_bytes // _LEAST_BLOCK_BYTES
    while position < len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += 4
        if not 0 <= length <= len(data) - position:
            raise ValueError(f"a block of {length} bytes where {len(data) - position} are left")
        if not left:
            raise DecompressedTooLarge(limit_bytes)
        yield data[position : position + length]
        position += length
        left -= 1


def _compress_lz4(data: Buffer, level: int) -> bytes:
    parts: list[Any] = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data if len(data) <= _LZ4_BLOCK_BYTES else memoryview(data)[start : start + _LZ4_BLOCK_BYTES]
        packed = cramjam.lz4.compress_block(plain, mode="high_compression", compression=level, store_size=False)
        if len(packed) < len(plain):
            parts += (_LITTLE_LENGTH.pack(len(packed)), packed)
        else:
            parts += (_LITTLE_LENGTH.pack(len(plain) | _LZ4_STORED), plain)
    parts.append(_LZ4_END)
    return b"".join(parts)


_FOR_TRANSIT: Final[Mapping[int, Callable[[Buffer], bytes]]] = {
    int(Codec.GZIP): _gzip_for_transit,
    int(Codec.SNAPPY): _compress_snappy,
    int(Codec.LZ4): lambda data: _compress_lz4(data, _DEFAULT_LEVEL[Codec.LZ4]),
}
