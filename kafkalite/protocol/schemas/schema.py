"""The shape of one message in one version: structs of fields in wire order.

A `Struct` is read from a table of kio's schemas (`schema_tables`), from one of those that kio does not ship (`control_tables`,
`legacy_tables`, `private_tables`) or from kio's generated classes (`kio_schemas`). `compiler` turns it into a reader and a writer. Type
names are kio's, but for two that only matter to kio: durations and datetimes are `int32`/`int64` milliseconds here.

Source of the encodings: the Kafka protocol guide; flexible versions are KIP-482, nullable structs KIP-893.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from struct import calcsize
from typing import Any

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Types of constant size, with their `struct` format character."""


def size_of(format_: str) -> int:
    """Return the bytes that values of these `struct` format characters take on the wire."""
    return calcsize(">" + format_)


_ZEROS: dict[str, Any] = {"bool": False, "float64": 0.0, "uuid": bytes(16), "string": "", "bytes": b"", "records": None}


ENCODED = "encoded"
"""Type of an array's items that are bytes already, written as they are: see `Struct.with_encoded`."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field; `type` is a key of FIXED_FORMATS, "string", "bytes", "records", ENCODED, or a Struct.

    `tag` is the number of a tagged field (KIP-482), which is left out on the wire while it holds `default`; a tagged struct is
    None while it is absent.
    """

    name: str
    type: str | Struct
    is_array: bool = False
    nullable: bool = False
    tag: int | None = None
    default: Any = None

    @property
    def has_own_default(self) -> bool:
        """True if every object must get a fresh default (a list, a nested struct)."""
        return not self.nullable and (self.is_array or isinstance(self.type, Struct))


@dataclass(frozen=True, slots=True)
class Struct:
    """A named sequence of fields, in one version."""

    name: str
    fields: tuple[Field, ...]
    flexible: bool

    def structs(self) -> Iterator[Struct]:
        """Yield this struct and all that are nested in it, inner ones first."""
        for field in self.fields:
            if isinstance(field.type, Struct):
                yield from field.type.structs()
        yield self

    def with_encoded(self, names: Collection[str]) -> Struct:
        """Return the struct for writing messages whose arrays of structs of these names hold encoded items."""
        fields = []
        for field in self.fields:
            if isinstance(field.type, Struct):
                is_encoded = field.is_array and field.type.name in names
                field = replace(field, type=ENCODED if is_encoded else field.type.with_encoded(names))
            fields.append(field)
        return replace(self, fields=tuple(fields))


def zero_of(type_: str | Struct, nullable: bool) -> Any:
    """Return the protocol's default for a field that declares none."""
    if nullable or isinstance(type_, Struct):
        return None
    return _ZEROS.get(type_, 0)
