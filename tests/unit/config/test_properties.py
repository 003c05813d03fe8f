"""The .properties format, as Java reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.config.keys import ConfigError
from kafkalite.config.properties import parse_overrides, parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2\nc:3\nd : 4\ne 5\nf", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": ""}),
        ("# one\n  ! two\n\n \t\na=1#2", {"a": "1#2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=x,\\\n   y,\\\n\tz\nb=1", {"a": "x,y,z", "b": "1"}),
        ("a=x\\\n# no comment here", {"a": "x# no comment here"}),
        ("a=ends with one\\\\\nb=2", {"a": "ends with one\\", "b": "2"}),
        ("a=cut off\\", {"a": "cut off"}),
        (r"a\=b\:c\ d=e", {"a=b:c d": "e"}),
        (r"a=\t\n\r\f\q\u00e9\ud83d\ude00", {"a": "\t\n\r\fqé😀"}),
        ("a==b", {"a": "=b"}),
        ("a=1\na=2", {"a": "2"}),
        ("=v", {"": "v"}),
        ("a = trailing blanks stay  ", {"a": "trailing blanks stay  "}),
        ("", {}),
    ],
)
def test_texts_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12g4", r"a=\u"])
def test_a_broken_escape_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="hexadecimal"):
        parse_properties(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.properties"):
        read_properties(tmp_path / "absent.properties")
    broken = tmp_path / "broken.properties"
    broken.write_bytes(b"a=\xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_properties(broken)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"\xef\xbb\xbfbroker.id=1\n")
    assert read_properties(path) == {"broker.id": "1"}


def test_overrides_of_a_command_line() -> None:
    assert parse_overrides(["a=1", "b = x=y", "a=2", "c="]) == {"a": "2", "b": "x=y", "c": ""}
    for wrong in ("a", "=1"):
        with pytest.raises(ConfigError, match="key=value"):
            parse_overrides([wrong])
