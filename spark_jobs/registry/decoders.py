"""The types of columns and the decoders of values, by the type of the schema that they are read with.

Each format's module is imported where it is used: its libraries are needed by those alone who have such records.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Final

from spark_jobs.batch.decoders import BatchDecoder
from spark_jobs.registry.schemas import JSON, PROTOBUF, Decoding, Schema, SchemaError

_LIBRARIES: Final = {PROTOBUF: ("google.protobuf", "protobuf"), JSON: ("jsonschema_rs", "json-schema")}
"""By the types of schemas that have an extra of kafkalite: what is imported, and the extra."""


def prepare_schemas(schemas: Sequence[Schema]) -> list[Schema]:
    """Return schemas, all of one type, as `column_type` and `make_decoder` take them. SchemaError where a library is missing."""
    kind = schemas[0].type if schemas else None
    if kind in _LIBRARIES:
        _check_library(kind)
    if kind != PROTOBUF:
        return list(schemas)
    from spark_jobs.registry.protobuf_compiler import compile_schemas

    return compile_schemas(schemas)


def writer_schema(schema: Schema) -> Schema:
    """Return what executors need of a prepared schema that values were written with."""
    if schema.type != PROTOBUF:
        return schema
    from spark_jobs.registry.protobuf_compiler import without_imports

    return without_imports(schema)


def column_type(reader: Schema, message: str | None = None) -> Any:
    """Return Spark's type of a column that is read with a schema; `message` is that of `Decoding`. SchemaError if it cannot be one."""
    if reader.type == PROTOBUF:
        from spark_jobs.registry.protobuf_types import find_message, message_type

        return message_type(find_message(reader, message))
    if reader.type == JSON:
        from spark_jobs.registry.json_columns import JsonColumns
        from spark_jobs.registry.json_document import JsonDocument

        return JsonColumns(JsonDocument(reader)).column()[0]
    from spark_jobs.registry.avro_types import ParsedAvro

    parsed = ParsedAvro(reader)
    parsed.fill_defaults()
    return parsed.type


def make_decoder(decoding: Decoding) -> BatchDecoder:
    """Return the decoder of a column, for which `column_type` has found a type."""
    if decoding.reader.type == PROTOBUF:
        from spark_jobs.registry.protobuf_values import ProtobufDecoder

        return ProtobufDecoder(decoding)
    if decoding.reader.type == JSON:
        from spark_jobs.registry.json_values import JsonDecoder

        return JsonDecoder(decoding)
    from spark_jobs.registry.avro_values import AvroDecoder

    return AvroDecoder(decoding)


def _check_library(kind: str) -> None:
    module, extra = _LIBRARIES[kind]
    try:
        found = find_spec(module)
    except ModuleNotFoundError:  # of the package that it would be in
        found = None
    if found is None:
        raise SchemaError(f"{kind} schemas need a library that is not installed: pip install 'kafkalite[{extra}]'")
