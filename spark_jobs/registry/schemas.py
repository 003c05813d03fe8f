"""Schemas as a registry has them, and what a decoder is made of: plain data, so that the driver can ship it to executors. Pure.

Whoever may register a schema decides what is in it, so each format bounds what it makes of one before values are decoded with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

AVRO: Final = "AVRO"
"""The registry's name of the type; it leaves it out of its responses for Avro."""
PROTOBUF: Final = "PROTOBUF"
JSON: Final = "JSON"
TYPES_OF_FORMATS: Final[Mapping[str, str]] = {"avro": AVRO, "protobuf": PROTOBUF, "json-schema": JSON}
"""The registry's types of schema by the names of `--value-format` and `valueFormat`."""

MAX_SCHEMA_BYTES: Final = 1 << 20
"""Of a schema and those that it refers to; a registry over Kafka keeps a schema in one record, whose bound is this by default."""
MAX_DECODING_BYTES: Final = 8 << 20
"""Of all schemas that decode a topic's keys or values, which each task gets."""
MAX_NODES: Final = 10_000
"""Of a schema in which each name is replaced by what it stands for: fields, members, items. So many columns are the most at once."""
MAX_DEPTH: Final = 100
"""Of that schema."""
MAX_VALUES: Final = 1_000_000
"""Of a record: fields, items and members, also those that are null."""


class SchemaError(ValueError):
    """A schema that values cannot be decoded with; the message names the field."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one refers to, by the name that stands there."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text, and the schemas that it refers to, each behind those that it needs itself.

    Of a Protobuf schema that decodes, `compiled` is a FileDescriptorSet whose last file is this one, or `problem` says why there is none.
    """

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    compiled: bytes = field(default=b"", repr=False)
    problem: str | None = None

    def size(self) -> int:
        """Return the characters of all of its texts."""
        return len(self.text) + sum(len(each.text) for each in self.references)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How keys or values are encoded: a registered schema, its id, where it is from, and of Protobuf the message."""

    id: int
    schema: Schema
    known_from: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Decoding:
    """How keys or values are decoded: the schema of the column, and the schemas that writers used, by their ids."""

    reader: Schema
    writers: Mapping[int, Schema] = field(default_factory=dict)
    known_from: str = "the schema registry"
    """Where `writers` are from, for the reason of a record that has another id."""
    message: str | None = None
    """Of Protobuf, the full name of the message that is decoded; None is the first of the schema."""
