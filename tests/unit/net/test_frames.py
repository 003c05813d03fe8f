"""Frames: any cutting of the stream gives the same ones; headers; bad lengths."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.errors import ProtocolViolation
from kafkalite.net.frames import (
    FrameReader,
    ReceiveBuffers,
    read_head,
    read_request_header,
    request_frame,
    response_body_position,
    response_frame,
)
from kafkalite.protocol.apis import APIS, ApiKey

SHARED_BYTES = 64
"""Small, so that frames are often larger than the shared buffer."""


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def feed(reader: FrameReader, data: bytes) -> list[bytes]:
    """What comes out when as much is received at once as the reader takes."""
    frames = []
    while data and reader.violation is None:
        buffer = reader.get_buffer()
        count = min(len(buffer), len(data))
        assert count > 0
        buffer[:count] = data[:count]
        data = data[count:]
        frames += [bytes(frame) for frame, _ in reader.receive(count)]
    return frames


payloads = st.lists(st.binary(min_size=1, max_size=200), max_size=12)


@settings(max_examples=300)
@given(payloads, st.lists(st.integers(min_value=1, max_value=90), max_size=60))
def test_any_split_of_the_stream_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, frames))
    reader = FrameReader(ReceiveBuffers(SHARED_BYTES), 200)
    seen: list[bytes] = []
    for cut in [*cuts, len(stream)]:
        seen += feed(reader, stream[:cut])
        stream = stream[cut:]
    seen += feed(reader, stream)
    assert seen == frames
    assert reader.violation is None
    assert reader.buffered_bytes == 0


@settings(max_examples=100)
@given(
    payloads,
    st.one_of(st.integers(min_value=-(2**31), max_value=0), st.integers(min_value=201, max_value=2**31 - 1)),
    st.integers(min_value=1, max_value=30),
)
def test_frames_before_a_bad_length_are_good(frames: list[bytes], length: int, step: int) -> None:
    stream = b"".join(map(framed, frames)) + struct.pack(">i", length) + b"never seen"
    reader = FrameReader(ReceiveBuffers(SHARED_BYTES), 200)
    seen: list[bytes] = []
    for start in range(0, len(stream), step):
        seen += feed(reader, stream[start : start + step])
        if reader.violation is not None:
            break
    assert seen == frames
    assert reader.violation is not None
    assert str(length) in reader.violation


def test_one_reader_per_connection_can_share_a_buffer() -> None:
    """Every read is consumed before the next; only the head of a length and large frames are kept, elsewhere."""
    shared = ReceiveBuffers(SHARED_BYTES)
    one, other = FrameReader(shared, 1000), FrameReader(shared, 1000)
    stream_one, stream_other = framed(b"a" * 100) + framed(b"b"), framed(b"C") + framed(b"D" * 300)
    seen_one: list[bytes] = []
    seen_other: list[bytes] = []
    for start in range(0, 320, 3):
        seen_one += feed(one, stream_one[start : start + 3])
        seen_other += feed(other, stream_other[start : start + 3])
    assert seen_one == [b"a" * 100, b"b"]
    assert seen_other == [b"C", b"D" * 300]


def test_frames_say_whether_their_memory_is_their_own() -> None:
    reader = FrameReader(ReceiveBuffers(SHARED_BYTES), 1000)
    data = framed(b"small") + framed(b"x" * 100)
    reader.get_buffer()[: len(data[:60])] = data[:60]
    ((frame, owned),) = reader.receive(60)
    assert (bytes(frame), owned) == (b"small", False)
    assert reader.buffered_bytes == 100
    rest = data[60:]
    buffer = reader.get_buffer()
    buffer[: len(rest)] = rest
    ((frame, owned),) = reader.receive(len(rest))
    assert (bytes(frame), owned, frame.readonly) == (b"x" * 100, True, False)


def one_large_frame(reader: FrameReader, payload: bytes) -> memoryview:
    """The frame, received in two pieces, so that it has memory of its own."""
    data = framed(payload)
    reader.get_buffer()[:SHARED_BYTES] = data[:SHARED_BYTES]
    assert reader.receive(SHARED_BYTES) == []
    rest = data[SHARED_BYTES:]
    reader.get_buffer()[: len(rest)] = rest
    ((frame, owned),) = reader.receive(len(rest))
    assert owned
    return frame


def test_memory_of_a_large_frame_is_used_again_when_nobody_looks_at_it() -> None:
    buffers = ReceiveBuffers(SHARED_BYTES, pool_bytes=10_000)
    reader = FrameReader(buffers, 5000)
    first = one_large_frame(reader, b"1" * 400)
    value = first[100:110]
    del first
    second = one_large_frame(reader, b"2" * 300)  # a view of ten bytes keeps the first buffer
    assert bytes(value) == b"1" * 10
    assert second.obj is not value.obj
    assert buffers.kept_bytes == 700
    reused = value.obj
    del value
    third = one_large_frame(reader, b"3" * 350)
    assert third.obj is reused
    assert bytes(third) == b"3" * 350
    assert bytes(second) == b"2" * 300
    assert buffers.kept_bytes == 700


def test_what_is_kept_for_later_frames_is_bounded() -> None:
    buffers = ReceiveBuffers(SHARED_BYTES, pool_bytes=1000)
    reader = FrameReader(buffers, 5000)
    lent = [one_large_frame(reader, bytes([number]) * 400) for number in range(1, 6)]
    assert buffers.kept_bytes <= 1000
    assert [bytes(frame) for frame in lent] == [bytes([number]) * 400 for number in range(1, 6)]
    one_large_frame(reader, b"x" * 600)  # more than half of the pool: not worth what it would push out
    assert buffers.kept_bytes <= 1000


def test_memory_that_nobody_uses_any_more_is_given_back() -> None:
    buffers = ReceiveBuffers(SHARED_BYTES, pool_bytes=1000)
    lent, free = buffers.borrow(300, 300), buffers.borrow(400, 400)
    del free
    buffers.release_unused()
    assert buffers.kept_bytes == 700, "both were lent since the last call"
    buffers.release_unused()
    assert buffers.kept_bytes == 300
    del lent
    buffers.release_unused()
    assert buffers.kept_bytes == 0


def test_thousands_of_promises_take_little() -> None:
    buffers = ReceiveBuffers()
    readers = [FrameReader(buffers, 100 << 20) for _ in range(1000)]
    for reader in readers:
        assert feed(reader, struct.pack(">i", 100 << 20) + b"x" * 100) == []
    assert sum(reader.buffered_bytes for reader in readers) <= 1000 * 16 * 1024
    assert all(reader.arriving == (100, 100 << 20) and reader.is_cut for reader in readers)


def test_memory_that_is_refused_is_asked_for_again() -> None:
    asked: list[int] = []
    limit = 300

    def may_take(size: int) -> bool:
        asked.append(size)
        return sum(asked) <= limit

    payload = bytes(range(256)) * 400
    data = framed(payload)
    reader = FrameReader(ReceiveBuffers(SHARED_BYTES), 1 << 20, may_take)
    assert feed(reader, data[:SHARED_BYTES]) == []
    assert reader.stalled and reader.buffered_bytes == SHARED_BYTES - 4, "no more than what is there"
    asked.clear()
    assert not reader.go_on() and reader.stalled
    asked.clear()
    limit = 1 << 20
    assert reader.go_on() and not reader.stalled
    assert feed(reader, data[SHARED_BYTES:]) == [payload]
    assert not reader.is_cut and reader.buffered_bytes == 0


# Headers


@pytest.mark.parametrize("client_id", [None, "", "me", "Ä" * 100])
@pytest.mark.parametrize(("key", "version"), [(ApiKey.PRODUCE, 8), (ApiKey.PRODUCE, 9), (ApiKey.API_VERSIONS, 3)])
def test_request_headers(client_id: str | None, key: ApiKey, version: int) -> None:
    api = APIS[key]
    frame = b"".join(request_frame(api, version, 1234, client_id, [b"body"]))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = read_request_header(frame[4:], 2 if api.is_flexible(version) else 1)
    assert (header.api_key, header.api_version, header.correlation_id) == (key, version, 1234)
    assert header.client_id == client_id
    assert frame[4 + header.body_position :] == b"body"


def test_the_oldest_controlled_shutdown_names_no_client() -> None:
    frame = b"".join(request_frame(APIS[ApiKey.CONTROLLED_SHUTDOWN], 0, 7, "me", [b"body"]))[4:]
    header = read_request_header(frame, 0)
    assert (header.client_id, frame[header.body_position :]) == (None, b"body")


def test_tagged_fields_of_a_header_are_skipped() -> None:
    frame = struct.pack(">hhih", 18, 3, 1, -1) + b"\x02\x00\x03abc\x05\x00" + b"body"
    assert frame[read_request_header(frame, 2).body_position :] == b"body"


@pytest.mark.parametrize("version", [1, 2])
def test_a_header_cut_at_any_byte_is_a_violation(version: int) -> None:
    frame = struct.pack(">hhih", 18, 3, 1, 3) + b"abc" + b"\x02\x00\x03abc\x05\x00"
    for size in range(len(frame) if version == 2 else 13):
        with pytest.raises(ProtocolViolation):
            read_request_header(memoryview(frame)[:size], version)


def test_a_request_too_short_for_its_head() -> None:
    with pytest.raises(ProtocolViolation, match="7 bytes"):
        read_head(b"1234567")


@pytest.mark.parametrize(("key", "version", "position"), [(0, 8, 4), (0, 9, 5), (18, 3, 4)])
def test_response_headers(key: int, version: int, position: int) -> None:
    frame = b"".join(response_frame(APIS[key], version, 99, [b"body"]))[4:]
    assert frame[:4] == b"\x00\x00\x00\x63"
    assert response_body_position(APIS[key], version, frame) == position
    assert frame[position:] == b"body"


@pytest.mark.parametrize("frame", [bytes(4), bytes(4) + b"\x01", bytes(4) + b"\x01\x00\x7f", bytes(4) + b"\xff" * 6])
def test_a_response_header_that_is_cut_is_a_violation(frame: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        response_body_position(APIS[ApiKey.PRODUCE], 9, frame)


@pytest.mark.parametrize("parts", [[b"x"], [b"x" * 5000], [b"a", b"b" * 3000, b"c"], []])
def test_the_length_counts_all_parts(parts: list[bytes]) -> None:
    frame = b"".join(response_frame(APIS[ApiKey.PRODUCE], 3, 1, list(parts)))
    assert frame == struct.pack(">ii", 4 + sum(map(len, parts)), 1) + b"".join(parts)
