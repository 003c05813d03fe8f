"""Python values to bytes and back."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.client.serializers import check_choice, deserializer_for, format_named, serializer_for


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("bytes", b"\x00\xff", b"\x00\xff"),
        ("str", "Größe", "Größe".encode()),
        ("int", -2, b"\xff" * 7 + b"\xfe"),
        ("float", 1.5, b"\x3f\xf8" + bytes(6)),
        ("json", {"a": [1, None, "é"]}, '{"a":[1,null,"é"]}'.encode()),
        ("msgpack", {"a": [1, None], 2: b"\x00"}, b"\x82\xa1a\x92\x01\xc0\x02\xc4\x01\x00"),
    ],
)
def test_formats(name: str, value: Any, data: bytes) -> None:
    assert format_named(name).serialize(value) == data
    assert format_named(name).deserialize(data) == value


@pytest.mark.parametrize(
    ("name", "value"), [("bytes", "text"), ("str", b"x"), ("int", 1.5), ("int", True), ("json", float("nan"))]
)
def test_values_of_another_kind_are_refused(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        format_named(name).serialize(value)


def test_javas_shorter_numbers_are_read() -> None:
    assert format_named("int").deserialize(b"\xff\xff\xff\xfe") == -2
    assert format_named("float").deserialize(b"\x3f\xc0\x00\x00") == 1.5
    with pytest.raises(ValueError):
        format_named("int").deserialize(b"123")


def test_choices_by_name_callable_and_topic() -> None:
    assert serializer_for(None, "t")(b"x") == b"x"
    assert serializer_for("str", "t")("x") == b"x"
    assert serializer_for({"t": "int"}, "t")(1) == bytes(7) + b"\1"
    assert serializer_for({"t": "int"}, "u")(b"x") == b"x"
    assert serializer_for(lambda value: value * 2, "t")(b"x") == b"xx"
    assert deserializer_for(None, "t") is None and deserializer_for("bytes", "t") is None
    found = deserializer_for({"t": "json"}, "t")
    assert found is not None and found(b"[1]") == [1]


def test_unknown_names_are_refused_at_once() -> None:
    check_choice({"t": "json", "u": len})
    for bad in ("avro", {"t": "avro"}):
        with pytest.raises(ValueError, match="no format 'avro'"):
            check_choice(bad)
