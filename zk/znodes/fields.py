"""Reading and writing the JSON of znodes: compact on writing, tolerant on reading, clear about what is wrong.

Readers accept any whitespace and key order, ignore keys they do not know, and raise `MalformedZnodeError` that names the
kind of znode and the key. Kafka itself writes compact JSON; key order is that of the mapping handed to `to_json`.

What is read fits into Kafka's messages afterwards: integers into their bits, text into UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_SURROGATE = b"\\ud"
"""How JSON begins half a character beyond 16 bits, which UTF-8 cannot say without the other half."""


class MalformedZnodeError(ValueError):
    """Data that is no valid znode of its kind."""

    def __init__(self, kind: str, problem: str) -> None:
        super().__init__(f"malformed {kind} znode: {problem}")
        self.kind = kind
        self.problem = problem


def to_json(document: Mapping[str, Any]) -> bytes:
    """Return compact JSON in the mapping's order, UTF-8 without escapes for characters above ASCII, as Kafka writes it."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


class Fields:
    """A JSON object and the kind of znode it came from; getters raise MalformedZnodeError with the key's name."""

    __slots__ = ("_document", "kind")

    def __init__(self, kind: str, document: dict[str, Any]) -> None:
        self.kind = kind
        self._document = document

    @classmethod
    def parse(cls, kind: str, data: bytes, *, is_secret: bool = False) -> Fields:
        """Return the object in `data`. Raises MalformedZnodeError when it is no JSON object; it shows nothing of what may be secret."""
        shown = f"{len(data)} bytes" if is_secret else _excerpt(data)
        try:
            document = json.loads(data.decode("utf-8-sig"))  # of bytes, it would guess UTF-16 and take half characters
            if _SURROGATE in data.lower():
                to_json(document)
        except (ValueError, RecursionError) as problem:
            raise MalformedZnodeError(kind, f"not JSON ({problem}): {shown}") from problem
        if not isinstance(document, dict):
            raise MalformedZnodeError(kind, f"not a JSON object: {shown}")
        return cls(kind, document)

    def refuse(self, problem: str) -> MalformedZnodeError:
        """Return the error to raise about this znode."""
        return MalformedZnodeError(self.kind, problem)

    def has(self, key: str) -> bool:
        """True if the key has a value that is not null."""
        return self._document.get(key) is not None

    def version(self, lowest: int, highest: int | None = None) -> int:
        """Return the integer `version`, which must lie within the bounds."""
        version = self.integer("version")
        if version < lowest or (highest is not None and version > highest):
            raise self.refuse(f"version {version} is not supported")
        return version

    def integer(self, key: str, default: int | None = None, *, bits: int = 32, lowest: int | None = None) -> int:
        """Return an integer of so many bits; absent or null gives the default, or an error when there is none."""
        value = self._document.get(key)
        if value is None and default is not None:
            return default
        return self._integer(key, value, bits, lowest)

    def integer_text(self, key: str) -> int:
        """Return an integer of 64 bits that Kafka writes as a string; a bare number is accepted too."""
        value = self._document.get(key)
        try:
            return self._integer(key, int(value) if isinstance(value, str) else value, 64)
        except ValueError:
            raise self.refuse(f"{key} is {_excerpt(value)}, not an integer") from None

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string; absent or null gives the default, or an error when there is none."""
        value = self._document.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.refuse(f"{key} is {_excerpt(value)}, not a string")
        return value

    def brokers(self, key: str) -> tuple[int, ...]:
        """Return a list of broker ids."""
        return self.broker_list(key, self._document.get(key))

    def broker_list(self, key: str, value: object) -> tuple[int, ...]:
        """Return `value` as a tuple of broker ids, none of them negative; `key` for the error."""
        if not isinstance(value, list):
            raise self.refuse(f"{key} is {_excerpt(value)}, not a list")
        for item in value:
            if type(item) is not int or not 0 <= item < 1 << 31:
                return tuple(self._integer(key, each, 32, 0) for each in value)
        return tuple(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self._document.get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.refuse(f"{key} is {_excerpt(value)}, not a list of strings")
        return tuple(value)

    def mapping(self, key: str, *, required: bool = False) -> dict[str, Any]:
        """Return an object; empty when absent or null, unless it is required."""
        value = self._document.get(key)
        if value is None and not required:
            return {}
        if not isinstance(value, dict):
            raise self.refuse(f"{key} is {_excerpt(value)}, not an object")
        return value

    def objects(self, key: str) -> list[Fields]:
        """Return a list of objects."""
        value = self._document.get(key)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.refuse(f"{key} is {_excerpt(value)}, not a list of objects")
        return [Fields(self.kind, item) for item in value]

    def _integer(self, key: str, value: object, bits: int, lowest: int | None = None) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.refuse(f"{key} is {_excerpt(value)}, not an integer")
        if not (-1 << bits - 1 if lowest is None else lowest) <= value < 1 << bits - 1:
            raise self.refuse(f"{key} is {_excerpt(value)}, out of range")
        return value


def _excerpt(value: object, shown: int = 80) -> str:
    try:
        text = repr(value[:shown] if isinstance(value, bytes | str | list) else value)
    except ValueError:  # an integer of more digits than Python writes
        text = "an integer of thousands of digits"
    return text if len(text) <= shown + 3 else f"{text[:shown]}..."
