"""Codecs: round trips, bounds, and the framings that Kafka's clients insist on."""

from __future__ import annotations

import os
import random

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compressed_forms import decompress_block
from kafkalite.protocol.record_batches.compression import Codec, DecompressedTooLarge, compress, decompress

PACKING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@given(st.sampled_from(Codec), st.binary(max_size=3000), st.integers(0, 80))
def test_round_trip(codec, data, times):
    assert decompress(codec, compress(codec, data * times)) == data * times


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1_000_000])
def test_large_data_that_does_and_does_not_shrink(codec, size):
    for data in (os.urandom(size), b"kafka" * (size // 5)):
        assert decompress(codec, memoryview(compress(codec, data))) == data


@pytest.mark.parametrize("codec", PACKING)
def test_output_is_bounded(codec):
    packed = compress(codec, bytes(50_000_000))
    assert len(packed) < 3_000_000
    with pytest.raises(KafkaError) as refused:
        decompress(codec, packed, limit_bytes=1_000_000)
    assert refused.value.code == ErrorCode.INVALID_RECORD
    assert len(decompress(codec, compress(codec, bytes(1_000_000)), limit_bytes=1_000_000)) == 1_000_000


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.parametrize("size", [(4 << 20) - 1, 4 << 20, (9 << 20) + 17])
def test_much_is_decompressed_apart(codec, size):
    data = (os.urandom(500) + bytes(1500)) * (1 + size // 2000)
    packed = compress(codec, data[:size])
    plain = decompress(codec, packed, limit_bytes=size)
    assert (len(plain), bytes(plain), plain[-9:], plain[7::1000]) == (
        size,
        data[:size],
        data[size - 9 : size],
        data[7:size:1000],
    )
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, packed, limit_bytes=size - 1)


def test_a_bare_block_of_much():
    data = bytes(range(256)) * (5 << 12)
    assert bytes(decompress(Codec.SNAPPY, cramjam.snappy.compress_raw(data))) == data
    with pytest.raises(KafkaError, match="no snappy data"):
        decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data))[:-100])


@pytest.mark.parametrize("codec", PACKING)
def test_much_that_is_cut(codec):
    with pytest.raises(KafkaError) as refused:
        decompress(codec, compress(codec, os.urandom(5 << 20), 1)[:-1000])
    assert refused.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
def test_parts_with_nothing_in_them_are_not_free(codec):
    """A megabyte of them would take half a second."""
    head, part = (b"", compress(codec, b"")) if codec == Codec.GZIP else (compress(codec, b""), b"\0\0\0\1\0")
    assert decompress(codec, head + 3000 * part, limit_bytes=1 << 20) == b""
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, head + 50_000 * part, limit_bytes=1 << 20)


def test_output_is_bounded_when_no_size_is_announced():
    stream = cramjam.zstd.Compressor()
    stream.compress(bytes(30_000_000))
    packed = bytes(stream.finish())
    with pytest.raises(KafkaError):
        decompress(Codec.ZSTD, packed, limit_bytes=1_000_000)
    assert len(decompress(Codec.ZSTD, packed)) == 30_000_000


def test_a_size_that_lies_takes_no_memory():
    packed = bytearray(compress(Codec.GZIP, b"x" * 100))
    packed[-4:] = b"\xff\xff\xff\x7f"
    with pytest.raises(KafkaError):
        decompress(Codec.GZIP, packed)


@pytest.mark.parametrize("codec", PACKING)
@given(data=st.binary(max_size=200))
def test_garbage_is_refused_as_invalid(codec, data):
    try:
        decompress(codec, data)
    except KafkaError as problem:
        assert problem.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.parametrize("data", [b"", b"\x00", b"\x82SNAPPY\x00", b"\x82SNAPPY\x00" + bytes(8) + b"\x7f\xff\xff\xff"])
def test_hardly_any_data_raises_nothing_else(codec, data):
    try:
        decompress(codec, data)
    except KafkaError as problem:
        assert problem.code == ErrorCode.INVALID_RECORD


def test_unknown_codec():
    with pytest.raises(KafkaError) as refused:
        decompress(5, b"")
    assert refused.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_lz4_blocks_are_independent_because_java_refuses_others():
    assert compress(Codec.LZ4, b"x" * 1000)[4] & 0x20


def test_snappy_is_framed_as_java_does_and_read_unframed_too():
    assert compress(Codec.SNAPPY, b"x" * 1000)[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert decompress(Codec.SNAPPY, cramjam.snappy.compress_raw(b"bare")) == b"bare"


def test_a_frame_of_one_block_is_what_the_decoder_of_frames_makes_of_it():
    """Damaged or not: what is read by a shorter way is never something else."""
    chance = random.Random(4)
    shorter = 0
    for _ in range(500):
        plain = chance.randbytes(chance.randrange(300)) + bytes(chance.randrange(3000))
        frame = bytearray(compress(Codec.LZ4, plain))
        if chance.randrange(2):
            frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)
        found = decompress_block(Codec.LZ4, frame, 1 << 20)
        if found is not None:
            assert found == bytes(cramjam.lz4.decompress(frame))
            shorter += 1
    assert shorter > 200
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.LZ4, compress(Codec.LZ4, bytes(5000)), 4999)
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, bytes(5000)), 4999)
