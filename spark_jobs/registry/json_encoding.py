"""Values of a column to JSON that a JSON Schema accepts: what `json_columns` makes columns of, the other way. Pure.

A null field is left out, unless the schema requires it: then it is written as null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as T

from spark_jobs.registry.json_columns import JsonColumns
from spark_jobs.registry.json_document import JsonDocument, Node
from spark_jobs.registry.json_values import Validation
from spark_jobs.registry.schemas import Encoding


class JsonPayloads:
    """Encodes values by a JSON Schema, and validates them. SchemaError."""

    def __init__(self, encoding: Encoding) -> None:
        self._document = JsonDocument(encoding.schema)
        self._columns = JsonColumns(self._document)
        self._type = self._columns.column()[0]
        self._validation = Validation(encoding.schema)

    def encode(self, value: Any) -> bytes:
        restored = self._restore(value, self._type, self._document.root)
        payload = json.dumps(restored, ensure_ascii=False, allow_nan=False).encode()
        self._validation.check(restored, len(payload))
        return payload

    def _restore(self, value: Any, kind: T.DataType, node: Node) -> Any:
        if value is None:
            return None
        node = self._columns.typed_schema(node)
        if isinstance(kind, T.StructType):
            return self._restore_object(value, kind, node)
        if isinstance(kind, T.MapType):
            return {key: self._restore(each, kind.valueType, node["additionalProperties"]) for key, each in value}
        if isinstance(kind, T.ArrayType):
            return [self._restore(each, kind.elementType, node["items"]) for each in value]
        if isinstance(kind, T.StringType) and not self._columns.is_text(node):
            return json.loads(value)
        return value

    def _restore_object(self, row: Mapping[str, Any], kind: T.StructType, node: Node) -> Any:
        required = node.get("required", ())
        return {
            name: self._restore(value, kind[name].dataType, node["properties"][name])
            for name, value in row.items()
            if value is not None or name in required
        }
