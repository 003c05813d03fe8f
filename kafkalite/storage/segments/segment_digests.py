"""The digests kept of a segment, so that its records are read once for them and not for each question.

A *block* is what begins within the same MiB of the segment, or the rest of that from some batch on: whole batches, mostly a few dozen.
Only blocks below the last stable offset are kept, so that what is committed in them is settled; which ones depends on what was asked
for. Those of a sealed segment are written beside it, and read again after a start:

    <base offset, 20 digits>.digests
    0   magic b"kfdg"        4   version i16 = 1       6   size of `.log` i64
    14  number of the file, time of its last change, time of the last change of anything of it, in ns (`disk.FileVersion`) 3 × u64
    38  count of blocks i32
    42  blocks of 80 bytes: begin and end in `.log` 2 × u32, offset behind the last batch i64, and of the records in it: how many i64,
        first and last offset 2 × i64, least and largest timestamp 2 × i64, bytes of their contents i64, fingerprint 16 bytes
    -4  CRC-32C of all before it u32

It is a cache, which `digest_files` reads and writes. It counts only for the very file that it was made of: one that was cut, compacted,
copied or restored has another size or another version. What is damaged is not believed either. Apache Kafka leaves the file alone. Pure.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kafkalite.protocol.record_batches.checksum import crc32c
from kafkalite.protocol.record_batches.record_digest import FINGERPRINT_BYTES, RangeDigest
from kafkalite.storage.disk import FileVersion
from kafkalite.types import Buffer

BLOCK_BYTES: Final = 1 << 20
_MAGIC: Final = b"kfdg"
_VERSION: Final = 1
_HEAD: Final = struct.Struct(">4shqQQQi")
_BLOCK: Final = struct.Struct(f">II7q{FINGERPRINT_BYTES}s")
_CRC: Final = struct.Struct(">I")
_LARGEST_BYTES: Final = 1 << 20
"""A larger file is ignored: a segment has at most 2048 blocks."""


class DigestBlock(NamedTuple):
    """The digest of the whole batches from `begin` to before `end` of a segment; the next one begins at `end_offset` or later."""

    begin: int
    end: int
    end_offset: int
    digest: RangeDigest

    @property
    def number(self) -> int:
        return self.begin // BLOCK_BYTES


class SegmentDigests:
    """The blocks of one segment that are known, by number; `is_saved` while the file beside it has them all."""

    __slots__ = ("blocks", "is_saved")

    def __init__(self, blocks: dict[int, DigestBlock]) -> None:
        self.blocks = blocks
        self.is_saved = True

    def keep(self, block: DigestBlock) -> None:
        """Keep a block, unless more of it is known: a scan may begin within one."""
        known = self.blocks.get(block.number)
        if known is None or block.begin < known.begin:
            self.blocks[block.number] = block
            self.is_saved = False


def encode_blocks(blocks: dict[int, DigestBlock], size: int, version: FileVersion) -> bytes:
    """Return the content of the file for a segment whose `.log` has this size and version."""
    parts = [_HEAD.pack(_MAGIC, _VERSION, size, *version, len(blocks))]
    for _, (begin, end, end_offset, digest) in sorted(blocks.items()):
        fingerprint = digest.fingerprint.to_bytes(FINGERPRINT_BYTES, "big")
        parts.append(_BLOCK.pack(begin, end, end_offset, *digest[:-1], fingerprint))
    content = b"".join(parts)
    return content + _CRC.pack(crc32c(content))


def decode_blocks(content: Buffer, size: int, version: FileVersion) -> dict[int, DigestBlock]:
    """Return the blocks by number; none where the content is of another segment, or nothing that `encode_blocks` has written."""
    if not _HEAD.size + _CRC.size <= len(content) <= _LARGEST_BYTES:
        return {}
    body, crc = content[: -_CRC.size], content[-_CRC.size :]
    magic, format_version, of_size, number, modified_ns, changed_ns, count = _HEAD.unpack_from(body)
    if (
        (magic, format_version, of_size, (number, modified_ns, changed_ns)) != (_MAGIC, _VERSION, size, version)
        or len(body) != _HEAD.size + count * _BLOCK.size
        or _CRC.pack(crc32c(body)) != crc
    ):
        return {}
    blocks: dict[int, DigestBlock] = {}
    last_end = last_offset = 0
    for begin, end, end_offset, *facts, fingerprint in _BLOCK.iter_unpack(body[_HEAD.size :]):
        digest = RangeDigest._make((*facts, int.from_bytes(fingerprint, "big")))
        block = DigestBlock(begin, end, end_offset, digest)
        if not last_end <= begin < end <= size or end_offset < last_offset or block.number in blocks:
            return {}
        blocks[block.number] = block
        last_end, last_offset = end, end_offset
    return blocks
