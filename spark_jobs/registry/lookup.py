"""Which schemas decode the keys or values of a topic, read on the driver.

The schemas of writers are read after the end of what a task reads is pinned: a producer registers a schema before it writes with it, so
none of those records has a schema that came later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spark_jobs.registry.client import Registry
from spark_jobs.registry.decoders import column_type, prepare_schemas, writer_schema
from spark_jobs.registry.schemas import MAX_DECODING_BYTES, TYPES_OF_FORMATS, Decoding, Encoding, Schema, SchemaError

LATEST: Final = "latest"
PROTOBUF_FORMAT: Final = "protobuf"
REGISTRY_FORMATS: Final = tuple(TYPES_OF_FORMATS)
"""Formats whose values name a registered schema."""


class ChoiceError(ValueError):
    """A choice of schemas that makes no sense."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user says of keys or values: `part` is "key" or "value".

    `reader` is "latest", the number of a version, or `@` and a file. `subjects`, by commas: their schemas are those of the writers, and the
    reader's is one of the first; without them it is the subject that producers take by default, the topic's name and `-key` or `-value`
    (TopicNameStrategy). `message` is the full name of a Protobuf message, where it is not the first of the reader's schema.
    """

    part: str
    format: str
    reader: str = LATEST
    subjects: str | None = None
    message: str | None = None

    def subjects_of(self, topic: str) -> list[str]:
        """Return the subjects of a topic. ChoiceError."""
        if self.message is not None and self.format != PROTOBUF_FORMAT:
            raise ChoiceError(f"a message for {self.part}s is for the format {PROTOBUF_FORMAT}, not for {self.format}")
        if self.subjects is None:
            return [f"{topic}-{self.part}"]
        found = [subject for each in self.subjects.split(",") if (subject := each.strip())]
        if not found:
            raise ChoiceError(f"the subject for {self.part}s is empty: name one, or leave the option out")
        return found


class Lookup:
    """Finds the schemas of topics. The reader's schema of a topic is read once, so that all it makes has the same columns."""

    def __init__(self, choice: Choice, registry: Registry) -> None:
        self._choice, self._registry = choice, registry
        self._readers: dict[str, tuple[Schema, int | None]] = {}
        """By topic, with the id where it was read from the registry."""
        self._prepared: dict[Schema, Schema] = {}

    def reader(self, topic: str) -> Schema:
        """Return the schema that gives the column its type. RegistryError, SchemaError, ChoiceError."""
        return self._reader(topic)[0]

    def encoding(self, topic: str, is_registered: bool) -> Encoding:
        """Return what encodes values, by the reader's schema. One of a file is registered if that is wanted, else it has to be there.

        RegistryError, SchemaError, ChoiceError.
        """
        choice, (schema, number) = self._choice, self._reader(topic)
        subject = choice.subjects_of(topic)[0]
        if number is not None and is_registered:
            raise ChoiceError(f"the schema {choice.reader} for {choice.part}s is registered already: give @ and a file")
        if number is None:
            send = self._registry.register if is_registered else self._registry.find_id
            number = send(subject, Schema(schema.text, schema.type))
        return Encoding(number, schema, f"subject {subject}", choice.message)

    def _reader(self, topic: str) -> tuple[Schema, int | None]:
        found = self._readers.get(topic)
        if found is None:
            found = self._readers[topic] = self._find_reader(topic)
        return found

    def decoding(self, topic: str) -> Decoding:
        """Return what decodes records that are in the log by now. RegistryError, SchemaError, ChoiceError."""
        reader, subjects = self.reader(topic), self._choice.subjects_of(topic)
        registered = [each for subject in subjects for each in self._registry.versions(subject)]
        wanted = TYPES_OF_FORMATS[self._choice.format]
        found = {each.id: each.schema for each in registered if each.schema.type == wanted}
        where = f"subject {', '.join(subjects)}"
        _check_size(found.values(), where)
        self._prepare(found.values())
        writers = {number: writer_schema(self._prepared[schema]) for number, schema in found.items()}
        return Decoding(reader, writers, where, self._choice.message)

    def spark_type(self, topic: str) -> Any:
        """Return the type of the column. RegistryError, SchemaError, ChoiceError."""
        return column_type(self.reader(topic), self._choice.message)

    def _prepare(self, schemas: Iterable[Schema]) -> None:
        """Prepare those schemas that are not yet, all at once."""
        missing = [each for each in dict.fromkeys(schemas) if each not in self._prepared]
        self._prepared.update(zip(missing, prepare_schemas(missing), strict=True))

    def _find_reader(self, topic: str) -> tuple[Schema, int | None]:
        choice, wanted = self._choice, TYPES_OF_FORMATS[self._choice.format]
        subject = choice.subjects_of(topic)[0]
        if choice.reader.startswith("@"):
            found, where, number = Schema(_read_file(choice.reader[1:]), wanted), choice.reader[1:], None
        else:
            registered = self._registry.version(subject, _version(choice))
            found, number = registered.schema, registered.id
            where = f"version {registered.version} of subject {subject} at {self._registry.url}"
        if found.type != wanted:
            raise SchemaError(
                f"{where} is a schema of the type {found.type}, not {wanted}: give its format for {choice.part}s"
            )
        try:
            self._prepare([found])
            prepared = self._prepared[found]
            column_type(prepared, choice.message)  # says what cannot be a column before anything is read
        except SchemaError as problem:
            raise SchemaError(f"{where}: {problem}") from None
        return prepared, number


def _check_size(schemas: Iterable[Schema], where: str) -> None:
    """Raise SchemaError for more text than a task is to get; a text that several versions refer to counts once."""
    texts = {text for each in schemas for text in (each.text, *(reference.text for reference in each.references))}
    if (size := sum(map(len, texts))) > MAX_DECODING_BYTES:
        raise SchemaError(
            f"the schemas of {where} have {size} characters, more than {MAX_DECODING_BYTES}: name subjects with fewer versions"
        )


def _version(choice: Choice) -> int | str:
    if choice.reader == LATEST:
        return LATEST
    if choice.reader.isascii() and choice.reader.isdigit() and int(choice.reader) > 0:
        return int(choice.reader)
    raise ChoiceError(
        f"the schema {choice.reader!r} for {choice.part}s is neither latest, nor the number of a version, nor @ and a file of "
        f"{choice.format}"
    )


def _read_file(name: str) -> str:
    try:
        return Path(name).read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise ChoiceError(f"cannot read the schema {name}: {problem}") from None
