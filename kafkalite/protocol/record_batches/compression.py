"""Compression of record batches, with a bound on what decompression may produce.

`compressed_forms` does it. That is imported with the first compressed batch, because its libraries take a program that starts a millisecond
and 1.5 MB.
"""

from __future__ import annotations

from kafkalite.protocol.record_batches.batch_codecs import CODEC_OF_NAME as CODEC_OF_NAME
from kafkalite.protocol.record_batches.batch_codecs import DECOMPRESSED_LIMIT_BYTES as DECOMPRESSED_LIMIT_BYTES
from kafkalite.protocol.record_batches.batch_codecs import Codec as Codec
from kafkalite.protocol.record_batches.batch_codecs import DecompressedTooLarge as DecompressedTooLarge
from kafkalite.types import Buffer


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data` with `codec`; `level` None or -1 stands for the codec's default level."""
    codec = Codec(codec)
    if codec is Codec.NONE:
        return bytes(data)
    from kafkalite.protocol.record_batches import compressed_forms

    return compressed_forms.compress(codec, data, level)


def decompress(codec: int, data: Buffer, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> bytes | bytearray:
    """Return the decompressed `data`, at most `limit_bytes` of it.

    Raises KafkaError UNSUPPORTED_COMPRESSION_TYPE for an unknown codec, INVALID_RECORD for data that is not what the
    codec writes, as DecompressedTooLarge where it would grow past the limit.
    """
    if codec == Codec.NONE:
        return bytes(data)
    from kafkalite.protocol.record_batches import compressed_forms

    return compressed_forms.decompress(codec, data, limit_bytes)
