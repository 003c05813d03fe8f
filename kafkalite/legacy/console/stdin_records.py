"""Records from the lines that `kafka-console-producer` reads: key, headers and value between separators (Kafka's LineMessageReader). Pure.

Lines are bytes and stay as they are: what is no UTF-8 passes through unharmed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkalite.legacy.command_line.failures import ToolError

_KAFKA_EXCEPTION: Final = "org.apache.kafka.common.KafkaException"


class LineRecord(NamedTuple):
    """The record of one line."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LineReader:
    """Parses lines as `properties` (`parse.key`, `key.separator`, …) say. Raises ToolError for separators that cannot be distinguished."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def text(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        def yes(name: str) -> bool:
            return properties.get(name, "").strip().lower() == "true"

        self._parse_key, self._parse_headers = yes("parse.key"), yes("parse.headers")
        self._ignore_error = yes("ignore.error")
        self._key_separator = text("key.separator", "\t")
        self._headers_delimiter = text("headers.delimiter", "\t")
        self._headers_separator = text("headers.separator", ",")
        self._header_key_separator = text("headers.key.separator", ":")
        self._null_marker = properties["null.marker"].encode() if "null.marker" in properties else None
        self._number = 0
        self._check()
        self._headers_pattern = re.compile(self._headers_separator)

    def _check(self) -> None:
        delimiter, separator, key_separator = (
            ("headers.delimiter", self._headers_delimiter),
            ("headers.separator", self._headers_separator),
            ("headers.key.separator", self._header_key_separator),
        )
        marker = ("null.marker", self._null_marker)
        pairs: list[tuple[tuple[str, bytes | None], tuple[str, bytes]]] = [
            (delimiter, separator),
            (delimiter, key_separator),
            (separator, key_separator),
        ]
        pairs += [
            (marker, other) for other in (("key.separator", self._key_separator), separator, delimiter, key_separator)
        ]
        for (name, value), (other_name, other) in pairs:
            if value == other:
                raise _failure(f"{name} and {other_name} may not be equal")

    def read(self, line: bytes) -> LineRecord:
        """Return the record of the next line. Raises ToolError when a separator is missing."""
        self._number += 1
        headers = self._cut(self._parse_headers, line, 0, self._headers_delimiter, "headers delimiter")
        begin = 0 if headers is None else len(headers) + len(self._headers_delimiter)
        key = self._cut(self._parse_key, line, begin, self._key_separator, "key separator")
        begin += 0 if key is None else len(key) + len(self._key_separator)
        value = line[begin:]
        return LineRecord(
            None if key == self._null_marker else key,
            None if value == self._null_marker else value,
            [] if headers is None or headers == self._null_marker else self._headers(headers),
        )

    def _cut(self, wanted: bool, line: bytes, begin: int, separator: bytes, what: str) -> bytes | None:
        if not wanted:
            return None
        end = line.find(separator, begin)
        if end < 0:
            if self._ignore_error:
                return None
            raise _failure(f"No {what} found on line number {self._number}: '{line.decode(errors='replace')}'")
        return line[begin:end]

    def _headers(self, headers: bytes) -> list[tuple[str, bytes | None]]:
        pairs = self._headers_pattern.split(headers)
        while len(pairs) > 1 and not pairs[-1]:  # Java's split drops empty strings at the end
            pairs.pop()
        return [self._header(each) for each in pairs]

    def _header(self, pair: bytes) -> tuple[str, bytes | None]:
        key, separator, value = pair.partition(self._header_key_separator)
        shown = pair.decode(errors="replace")
        if not separator:
            if self._ignore_error:
                return shown, None
            raise _failure(f"No header key separator found in pair '{shown}' on line number {self._number}")
        if key == self._null_marker:
            marker = key.decode(errors="replace")
            raise _failure(f"Header keys should not be equal to the null marker '{marker}' as they can't be null")
        return key.decode(errors="replace"), None if value == self._null_marker else value


def _failure(message: str) -> ToolError:
    return ToolError(message, _KAFKA_EXCEPTION)
