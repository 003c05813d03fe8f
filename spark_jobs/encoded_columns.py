"""The sink's columns that are encoded by a schema of a registry: options, types, and what a task encodes with.

With the option `valueFormat` (`keyFormat`) the column `value` (`key`) has the type of a schema, which is read once, on the driver. Nothing
is registered unless `valueRegister` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import types as T

from spark_jobs.decoded_columns import registry_choices, registry_options
from spark_jobs.options import OptionError, Options, boolean_option
from spark_jobs.registry.client import Registry
from spark_jobs.registry.decoders import column_type
from spark_jobs.registry.encoders import ValueEncoder
from spark_jobs.registry.lookup import Lookup
from spark_jobs.registry.schemas import Encoding

_WIDENS: Mapping[type[T.DataType], tuple[type[T.DataType], ...]] = {
    T.IntegerType: (T.ByteType, T.ShortType),
    T.LongType: (T.ByteType, T.ShortType, T.IntegerType),
    T.DoubleType: (T.FloatType,),
}
"""Types of columns that do for another one."""


def find_encodings(options: Mapping[str, str]) -> dict[str, Encoding]:
    """Return how keys and values are encoded, for those that a format of a registry is given for.

    OptionError, RegistryError, SchemaError, ChoiceError.
    """
    given = Options(options)
    choices = registry_choices(given)
    if not choices:
        return {}
    registry = Registry(registry_options(given, choices))
    topic = given.get("topic", "").strip()
    found = {}
    for part, choice in choices.items():
        if not topic and choice.subjects is None:
            raise OptionError(f"Option '{part}Subject' must be specified where no option gives the topic")
        found[part] = Lookup(choice, registry).encoding(topic, boolean_option(given, f"{part}Register", False))
    return found


def check_encoded_types(schema: T.StructType, encodings: Mapping[str, Encoding]) -> None:
    """Raise OptionError when a column that is to be encoded has not the type of its schema."""
    for part, encoding in encodings.items():
        if part not in schema.names:
            raise OptionError(f"Option '{part}Format' needs a column '{part}'")
        _check_type(part, schema[part].dataType, column_type(encoding.schema, encoding.message), encoding)


def _check_type(where: str, given: T.DataType, wanted: T.DataType, encoding: Encoding) -> None:
    if isinstance(given, T.StructType) and isinstance(wanted, T.StructType):
        for each in given.fields:
            if each.name not in wanted.names:
                raise OptionError(
                    f"the schema {encoding.id} of {encoding.known_from} has no field for the column {where}.{each.name}; "
                    f"its fields are {', '.join(wanted.names)}"
                )
            _check_type(f"{where}.{each.name}", each.dataType, wanted[each.name].dataType, encoding)
    elif isinstance(given, T.ArrayType) and isinstance(wanted, T.ArrayType):
        _check_type(f"{where}[]", given.elementType, wanted.elementType, encoding)
    elif isinstance(given, T.MapType) and isinstance(wanted, T.MapType):
        _check_type(f"{where} (key)", given.keyType, wanted.keyType, encoding)
        _check_type(f"{where} (value)", given.valueType, wanted.valueType, encoding)
    elif given.simpleString() != wanted.simpleString() and type(given) not in _WIDENS.get(type(wanted), ()):
        raise OptionError(
            f"column {where} is {given.simpleString()}; the schema {encoding.id} of {encoding.known_from} wants "
            f"{wanted.simpleString()}: cast it"
        )


class ColumnEncoders:
    """What a task encodes with."""

    def __init__(self, encodings: Mapping[str, Encoding]) -> None:
        self._encoders = {part: ValueEncoder(encoding) for part, encoding in encodings.items()}

    def encode(self, name: str, column: Any) -> Any:
        """Return a column as binary; one that has no encoding as it is. EncodeError."""
        encoder = self._encoders.get(name)
        if encoder is None:
            return column
        values = (None if value is None else encoder.encode(value) for value in column.to_pylist())
        return pa.array(list(values), pa.binary())
