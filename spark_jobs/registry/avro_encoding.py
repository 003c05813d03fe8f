"""Values of a column to Avro: what `avro_types` makes columns of, the other way. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro

from spark_jobs.registry.avro_tree import NAMED, Avro, kind_of
from spark_jobs.registry.avro_types import VALUE, ParsedAvro, wider_type
from spark_jobs.registry.schemas import Encoding

_Restore = Callable[[Any], Any]


class AvroPayloads:
    """Encodes values by an Avro schema. SchemaError."""

    def __init__(self, encoding: Encoding) -> None:
        self._parsed = ParsedAvro(encoding.schema)
        self._parsed.fill_defaults()
        self._restore = _restoration(self._parsed, self._parsed.tree)

    def encode(self, value: Any) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, self._parsed.record, {VALUE: self._restore(value)})
        return stream.getvalue()


def _restoration(parsed: ParsedAvro, schema: Avro) -> _Restore:
    """Return what makes of a column's value what fastavro writes."""
    schema = parsed.definition(schema)
    if isinstance(schema, list):
        return _union_restoration(parsed, parsed.members(schema))
    kind = kind_of(schema)
    if kind == "record":
        return _record_restoration(parsed, schema["fields"])
    if kind == "array":
        item = _restoration(parsed, schema["items"])
        return lambda values: [item(each) for each in values]
    if kind == "map":
        item = _restoration(parsed, schema["values"])
        return lambda values: {key: item(each) for key, each in values}
    return _as_it_is


def _record_restoration(parsed: ParsedAvro, fields: Sequence[Mapping[str, Any]]) -> _Restore:
    restorations = [(each["name"], "default" in each, _restoration(parsed, each["type"])) for each in fields]

    def restore(row: Any) -> Any:
        # A field that the column has not gets its default, and null where it has none.
        return {
            name: None if (value := row.get(name)) is None else restore_field(value)
            for name, has_default, restore_field in restorations
            if name in row or not has_default
        }

    return restore


def _union_restoration(parsed: ParsedAvro, members: Sequence[Avro]) -> _Restore:
    if len(members) == 1:
        inner = _restoration(parsed, members[0])
        return lambda value: None if value is None else inner(value)
    if wider_type(members) is not None:
        return _as_it_is
    choices = {f"member{index}": _member_restoration(parsed, each) for index, each in enumerate(members)}

    def restore(value: Any) -> Any:
        if value is None:
            return None
        given = [(name, each) for name, each in value.items() if each is not None]
        if len(given) != 1:
            raise ValueError(f"a union has {len(given)} members that are not null, and is to have one")
        name, member = given[0]
        return choices[name](member)

    return restore


def _member_restoration(parsed: ParsedAvro, member: Avro) -> _Restore:
    """Return the restoration of a union's member, with the name that tells fastavro which it is."""
    inner = _restoration(parsed, member)
    schema = parsed.definition(member)
    kind = kind_of(schema)
    name = schema["name"] if kind in NAMED else kind
    return lambda value: (name, inner(value))


def _as_it_is(value: Any) -> Any:
    return value
