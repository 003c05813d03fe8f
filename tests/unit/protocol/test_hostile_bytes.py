"""Bytes that are no message: every one of them ends in a message or in ProtocolViolation, quickly and without much memory."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest

from kafkalite.errors import ProtocolViolation
from kafkalite.protocol import codec, messages
from kafkalite.protocol.schemas.compiler import compile_reader, compile_writer
from kafkalite.protocol.schemas.schema import FIXED_FORMATS, Field, Struct
from tests.case import case
from tests.unit.protocol.kio_oracle import MessageVersion, all_versions

EVERY = list(all_versions())
HUGE = b"\xff\xff\xff\xff\x07"
"""2^31 - 2 items or bytes, as a compact length."""


def full_message(each: MessageVersion, rng: random.Random) -> Any:
    """A message with something in every field, in the structure of its version."""
    return _filled(messages.schema(each.api, each.direction, each.version), each.classes, rng)


def _filled(struct: Struct, classes: dict[str, Any], rng: random.Random) -> Any:
    made = classes[struct.name]()
    for field in struct.fields:
        items = [_item(field, classes, rng) for _ in range(2 if field.is_array else 1)]
        setattr(made, field.name, items if field.is_array else items[0])
    return made


def _item(field: Field, classes: dict[str, Any], rng: random.Random) -> Any:
    if isinstance(field.type, Struct):
        return _filled(field.type, classes, rng)
    match field.type:
        case "string":
            return "".join(rng.choices("abc", k=rng.randrange(1, 5)))
        case "bytes" | "records":
            return rng.randbytes(rng.randrange(1, 9))
        case "uuid":
            return rng.randbytes(16)
        case "bool":
            return True
        case "float64":
            return 0.5
        case _:
            assert field.type in FIXED_FORMATS
            return rng.randrange(1, 4)  # also valid as the number of a security protocol


def encoded(each: MessageVersion, seed: int = 0) -> bytes:
    """A full message's bytes, without the adapters: the structure of the version itself."""
    write = compile_writer(messages.schema(each.api, each.direction, each.version), each.classes)
    return b"".join(write(full_message(each, random.Random(seed))))


def test_a_message_cut_at_any_byte_is_a_violation() -> None:
    for each in EVERY:
        with case(each):
            whole = encoded(each)
            read = codec.reader(each.api.key, each.direction, each.version)
            read(whole, 0)
            for size in range(len(whole)):
                with pytest.raises(ProtocolViolation):
                    read(memoryview(whole)[:size], 0)


def test_bytes_behind_a_message_are_ignored() -> None:
    for each in EVERY:
        with case(each):
            whole = encoded(each)
            read = codec.reader(each.api.key, each.direction, each.version)
            assert read(b"\x07\x07" + whole + b"\x00\x01\x02", 2) == read(whole, 0)


def test_random_changes_give_a_message_or_a_violation() -> None:
    for each in EVERY:
        with case(each):
            rng = random.Random(str(each))
            read = codec.reader(each.api.key, each.direction, each.version)
            whole = encoded(each)
            for _ in range(60):
                changed = bytearray(whole or b"\0")  # ListGroups 0 has no body
                for _ in range(rng.choice((1, 1, 2, 5))):
                    changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
                try:
                    assert type(read(memoryview(changed), 0)) is type(read(whole, 0))
                except ProtocolViolation:
                    pass


def test_negative_lengths_mean_null_or_empty() -> None:
    request = codec.decode_request(3, 1, b"\xff\xff\xff\xff")
    assert request.topics is None
    produce = codec.decode_request(0, 3, b"\xff\xff\x00\x01\x00\x00\x00\x05\xff\xff\xff\xff")
    assert produce.transactional_id is None
    assert produce.topic_data == []
    lowest = codec.decode_request(0, 3, b"\x80\x00\x00\x01\x00\x00\x00\x05\x80\x00\x00\x00")
    assert lowest.topic_data == []


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (3, 1, b"\x7f\xff\xff\xff"),
        (3, 12, HUGE),
        (3, 1, b"\x00\x00\x00\x01" b"\x7f\xff" b"abc"),
        (3, 12, b"\x02" + bytes(16) + HUGE),
        (0, 3, b"\xff\xff" b"\x00\x01" b"\x00\x00\x00\x05" b"\x00\x00\x00\x01" b"\x00\x01a"
               b"\x00\x00\x00\x01" b"\x00\x00\x00\x00" b"\x7f\xff\xff\xff"),
        (18, 3, b"\x01" b"\x01" + HUGE),
        (18, 3, b"\x01" b"\x01" b"\x01" b"\x00" + HUGE),
    ],
    ids=["array", "compact array", "string", "compact string", "records", "tags", "size of a tag"],
)  # fmt: skip
def test_a_length_beyond_the_end_is_a_violation(api_key: int, version: int, body: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        codec.decode_request(api_key, version, body)


def test_a_varint_of_six_bytes_is_a_violation() -> None:
    with pytest.raises(ProtocolViolation, match="five bytes"):
        codec.decode_request(3, 12, b"\xff\xff\xff\xff\xff\x01")


def test_text_that_is_not_utf8_is_a_violation() -> None:
    with pytest.raises(ProtocolViolation):
        codec.decode_request(3, 1, b"\x00\x00\x00\x01\x00\x02\xc3\x28")


def test_unknown_tagged_fields_are_skipped() -> None:
    body = b"\x04abc\x041.0\x02\x05\x03xyz\x63\x00"
    request = codec.decode_request(18, 3, body)
    assert (request.client_software_name, request.client_software_version) == ("abc", "1.0")


@pytest.mark.parametrize(
    ("api_key", "direction", "version", "head"),
    [
        (3, "request", 12, b""),
        (3, "request", 1, b""),
        (1, "response", 13, bytes(4) + bytes(2) + bytes(4)),
        (12 + 44, "request", 0, bytes(4) + bytes(8)),
        (75, "request", 0, b""),
    ],
)
def test_a_huge_count_of_items_allocates_next_to_nothing(
    api_key: int, direction: str, version: int, head: bytes
) -> None:
    """A frame may be 100 MB; what it says of its own contents must not cost more than it brought."""
    read = codec.reader(api_key, direction, version)
    payload = bytes(1000)
    count = b"\x00\x00\x03\xe8" if version == 1 else b"\xe9\x07"
    tracemalloc.start()
    try:
        for claim in (count, b"\x7f\xff\xff\xff" if version == 1 else HUGE):
            try:
                read(head + claim + payload, 0)
            except ProtocolViolation:
                pass
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_list_of_ids_that_cannot_be_there_is_not_built() -> None:
    """Ids are 16 bytes each; a claim of one for every byte would cost forty times the frame."""
    kio = compile_reader(
        Struct("Ids", (Field("ids", "uuid", is_array=True),), True), {"Ids": _class_with("Ids", "ids")}
    )
    body = b"\xc1\x84\x3d" + bytes(1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolViolation):
            kio(body, 0)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def _class_with(name: str, field: str) -> type:
    return type(name, (), {"__slots__": (field,), "FIELDS": (Field(field, "uuid", is_array=True),)})
