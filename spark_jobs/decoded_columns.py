"""The source's columns of decoded keys and values, for records of a schema registry: options, types, and what a task decodes with.

With the option `valueFormat` (`keyFormat`) rows have two more columns: `decodedValue` (`decodedKey`), and `valueError` (`keyError`), the
reason why a value that is not null could not be decoded. Nothing is left out and no query stops.

The driver reads the schemas after it has pinned the end of a batch or micro-batch, and each task gets them with its range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import StringType, StructField, StructType

from spark_jobs.options import Assign, OptionError, Options, Selection, Subscribe, selection_of
from spark_jobs.registry.client import Registry, RegistryOptions
from spark_jobs.registry.decoders import make_decoder
from spark_jobs.registry.lookup import LATEST, REGISTRY_FORMATS, Choice, Lookup
from spark_jobs.registry.schemas import Decoding

PARTS: Final = ("key", "value")
DECODED: Final[Mapping[str, str]] = {"decodedKey": "key", "decodedValue": "value"}
ERRORS: Final[Mapping[str, str]] = {"keyError": "key", "valueError": "value"}
DECODED_COLUMNS: Final[Mapping[str, str]] = {**DECODED, **ERRORS}
"""The columns, and the part of a record that each is made of."""


@dataclass(frozen=True, slots=True)
class RegistryColumns:
    """Which of PARTS are decoded, and how; `topic` gives the subjects that no option names."""

    registry: RegistryOptions
    choices: Mapping[str, Choice]
    topic: str

    def lookups(self) -> dict[str, Lookup]:
        """Return what finds the schemas of each part, over one client of the registry."""
        registry = Registry(self.registry)
        return {part: Lookup(choice, registry) for part, choice in self.choices.items()}


def decoded_fields(columns: RegistryColumns | None) -> list[StructField]:
    """Return the columns with their types. RegistryError, SchemaError, ChoiceError."""
    if columns is None:
        return []
    found = []
    lookups = columns.lookups()
    for name, error in zip(DECODED, ERRORS, strict=True):
        if (lookup := lookups.get(DECODED[name])) is not None:
            found += [StructField(name, lookup.spark_type(columns.topic)), StructField(error, StringType())]
    return found


class DecodingFinder:
    """Finds what the tasks of a query decode with. It travels to executors without its connection, which is made at need."""

    def __init__(self, columns: RegistryColumns | None, schema: StructType) -> None:
        self._columns = columns
        self._kinds = {DECODED[each.name]: each.dataType for each in schema.fields if each.name in DECODED}
        wanted = {DECODED_COLUMNS[each.name] for each in schema.fields if each.name in DECODED_COLUMNS}
        self._parts = tuple(part for part in PARTS if part in wanted)
        self._lookups: dict[str, Lookup] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_columns": None, "_lookups": None}

    def find(self) -> dict[str, Decoding]:
        """Return the decoding of each part, for records that are in the log by now.

        RegistryError, SchemaError, ChoiceError, OptionError.
        """
        if self._columns is None or not self._parts:
            return {}
        if self._lookups is None:
            self._lookups = self._columns.lookups()
        found: dict[str, Decoding] = {}
        for part in self._parts:
            lookup = self._lookups[part]
            kind = lookup.spark_type(self._columns.topic)
            if part in self._kinds and kind.simpleString() != self._kinds[part].simpleString():
                raise OptionError(
                    f"the schema of the decoded {part} is {kind.simpleString()} by now, and was "
                    f"{self._kinds[part].simpleString()} when the query was planned: name a version by the option '{part}Schema'"
                )
            found[part] = lookup.decoding(self._columns.topic)
        return found


class ColumnDecoders:
    """What a task decodes with."""

    def __init__(self, decodings: Mapping[str, Decoding]) -> None:
        self._decoders = {part: make_decoder(decoding) for part, decoding in decodings.items()}

    def decode(self, batch: Any) -> dict[str, Any]:
        """Return the arrays of DECODED_COLUMNS by name, for a record batch of the client."""
        found = {}
        for (name, part), error in zip(DECODED.items(), ERRORS, strict=True):
            if (decoder := self._decoders.get(part)) is not None:
                found[name], reasons = decoder.decode(batch.column(part).cast(pa.binary()))
                found[error] = pa.array(reasons, pa.string())
        return found


def registry_columns(options: Mapping[str, str]) -> RegistryColumns | None:
    """Return how keys and values of a schema registry are decoded; None when no option asks for it. OptionError."""
    given = Options(options)
    choices = registry_choices(given)
    if not choices:
        return None
    return RegistryColumns(registry_options(given, choices), choices, _one_topic(selection_of(given), choices))


def registry_choices(given: Options) -> dict[str, Choice]:
    """Return the choices of schemas for those of PARTS whose format is one of a schema registry. OptionError."""
    found = {}
    for part in PARTS:
        name = given.get(f"{part}Format", "bytes").strip().lower()
        if name in REGISTRY_FORMATS:
            schema = given.get(f"{part}Schema", LATEST).strip()
            found[part] = Choice(part, name, schema, given.get(f"{part}Subject"), given.get(f"{part}Message"))
            continue
        if name != "bytes":
            listed = ", ".join(("bytes", *REGISTRY_FORMATS))
            raise OptionError(f"Option '{part}Format' is '{name}', none of {listed}; decode others in the query")
        for what in ("Schema", "Subject", "Message", "Register"):
            if f"{part}{what}" in given:
                raise OptionError(f"Option '{part}{what}' needs the option '{part}Format', like avro")
    return found


def registry_options(given: Options, choices: Mapping[str, Choice]) -> RegistryOptions:
    """Return where the schema registry is that the choices need. OptionError."""
    url = given.get("schema.registry.url")
    if url is None:
        raise OptionError(f"Option '{next(iter(choices))}Format' needs the option 'schema.registry.url'")
    user_info = given.get("schema.registry.basic.auth.user.info")
    if (file := given.get("schema.registry.basic.auth.user.info.file")) is not None:
        user_info = _read_file(file, "schema.registry.basic.auth.user.info.file")
    registry = RegistryOptions(url.strip(), user_info, given.get("schema.registry.ssl.ca.location"))
    try:
        registry.check()
    except ValueError as problem:
        raise OptionError(f"Option 'schema.registry.url': {problem}") from None
    return registry


def _one_topic(choice: Selection, choices: Mapping[str, Choice]) -> str:
    """Return the topic whose name gives the subjects. OptionError where several topics are read and no subject is named."""
    topics: set[str] = set()
    if isinstance(choice, Subscribe):
        topics = set(choice.topics)
    elif isinstance(choice, Assign):
        topics = {each.topic for each in choice.partitions}
    if len(topics) == 1:
        return topics.pop()
    for part, each in choices.items():
        if each.subjects is None:
            raise OptionError(f"Option '{part}Subject' must be specified where more than one topic may be read")
    return ""


def _read_file(name: str, option: str) -> str:
    try:
        return Path(name).read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise OptionError(f"Option '{option}': cannot read {name}: {problem}") from None
