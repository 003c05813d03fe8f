"""JSON in the wire format to typed columns: validated by the schema that it was written with, read by the reader's. Pure.

jsonschema-rs validates: compiled, with a bound on what a regular expression of a schema may cost; jsonschema's are Python's, which can take
years for a short text, and fastjsonschema runs code that it makes of a schema. What validation may cost besides, `json_bounds` says.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

import jsonschema_rs

from spark_jobs.batch.decoders import BatchDecoder, UndecodableError
from spark_jobs.batch.schemas import arrow_type
from spark_jobs.registry.json_bounds import Cost, measure
from spark_jobs.registry.json_columns import JsonColumns
from spark_jobs.registry.json_document import JsonDocument
from spark_jobs.registry.schemas import MAX_VALUES, Decoding, Schema, SchemaError
from spark_jobs.registry.wire_format import HEADER_BYTES, WireFormatError, schema_id
from spark_jobs.registry.writer_schemas import WriterSchemas

MAX_BACKTRACKS: Final = 10_000
MAX_REGEX_BYTES: Final = 1 << 20
"""Of a compiled regular expression."""


class Validation:
    """Validates values by a schema. SchemaError when that is none, or is beyond the bounds."""

    def __init__(self, schema: Schema) -> None:
        document = JsonDocument(schema)
        self._cost: Cost = measure(document)
        options = jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS, size_limit=MAX_REGEX_BYTES)
        try:
            self._validator = jsonschema_rs.validator_for(
                document.root, retriever=_fetch_nothing, pattern_options=options
            )
        except Exception as problem:  # the library raises what its compiled code says
            raise SchemaError(f"not a JSON Schema: {type(problem).__name__}: {problem!s:.200}") from None

    def check(self, value: Any, size: int) -> None:
        """Raise UndecodableError for a value, of which `size` bytes were written, that is not of the schema."""
        if not self._cost.allows(size, value):
            raise UndecodableError("it is too large or nested too deeply to be validated by its schema")
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as problem:
            path = "".join(f"/{each}" for each in problem.instance_path)
            raise UndecodableError(f"{path or 'the value'}: {problem.message}") from None
        except ValueError as problem:
            raise UndecodableError(f"it cannot be validated: {problem!s:.200}") from None


class JsonDecoder(BatchDecoder):
    """Decodes values to the type of the reader's schema. SchemaError when that is none."""

    def __init__(self, decoding: Decoding) -> None:
        self._columns = JsonColumns(JsonDocument(decoding.reader))
        kind, self._convert = self._columns.column()
        self._validations = WriterSchemas(decoding, Validation)
        super().__init__(arrow_type(kind))

    def parse(self, value: bytes) -> Any:
        try:
            found = schema_id(value)
        except WireFormatError as problem:
            raise UndecodableError(str(problem)) from None
        validation = self._validations.find(found)
        parsed = _parse(value[HEADER_BYTES:])
        try:
            validation.check(parsed, len(value))
        except UndecodableError as problem:
            raise UndecodableError(f"not valid by the schema {found}: {problem}") from None
        if parsed is None:
            return None
        self._columns.left = MAX_VALUES
        try:
            return self._convert(parsed)
        except UndecodableError as problem:
            raise UndecodableError(f"valid by the schema {found}, but not of the reader's: {problem}") from None


def _parse(payload: bytes) -> Any:
    try:
        return json.loads(payload.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as problem:
        raise UndecodableError(f"not JSON: {problem}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _fetch_nothing(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not among the references")
