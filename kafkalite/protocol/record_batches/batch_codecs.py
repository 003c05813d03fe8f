"""The five codecs of record batches by number and name, and the bound on what decompression may produce.

| id | codec  | form of the compressed records                                                               |
|----|--------|----------------------------------------------------------------------------------------------|
| 0  | none   | as they are                                                                                  |
| 1  | gzip   | gzip members (RFC 1952)                                                                      |
| 2  | snappy | written in xerial's framing (magic, version, compatible version, blocks of i32 length and    |
|    |        | raw snappy); a bare raw block is read too                                                    |
| 3  | lz4    | an LZ4 frame of independent 64 KiB blocks; Kafka's own reader refuses dependent blocks       |
| 4  | zstd   | a zstd frame                                                                                 |
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kafkalite.errors import ErrorCode, KafkaError


class DecompressedTooLarge(KafkaError):
    """Compressed data would become more than its reader takes."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, f"compressed records grow past the limit of {limit_bytes} bytes")


class Codec(IntEnum):
    """Compression codecs with their numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_OF_NAME: Final = {
    "none": Codec.NONE,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""Codecs by their names in compression.type; "producer" is no codec."""

DECOMPRESSED_LIMIT_BYTES: Final = 100 * 1024 * 1024
"""Default bound: what a request of socket.request.max.bytes could have carried uncompressed."""
