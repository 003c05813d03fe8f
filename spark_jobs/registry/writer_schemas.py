"""What a decoder makes of the schemas that values were written with, once for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from spark_jobs.batch.decoders import UndecodableError
from spark_jobs.registry.schemas import Decoding, Schema, SchemaError

Made = TypeVar("Made")


class WriterSchemas(Generic[Made]):
    """Keeps what `make` returns for a writer's schema, or the SchemaError that it raises, by the schema's id."""

    def __init__(self, decoding: Decoding, make: Callable[[Schema], Made]) -> None:
        self._decoding, self._make = decoding, make
        self._made: dict[int, Made | SchemaError] = {}

    def find(self, found: int) -> Made:
        """Return what was made of the schema with that id. UndecodableError where it is unknown, or nothing can be made of it."""
        made = self._made.get(found)
        if made is None:
            schema = self._decoding.writers.get(found)
            if schema is None:
                raise UndecodableError(f"unknown schema id {found}: {self._decoding.known_from} has no such schema")
            try:
                made = self._make(schema)
            except SchemaError as problem:
                made = problem
            self._made[found] = made
        if isinstance(made, SchemaError):
            raise UndecodableError(f"the schema {found} cannot be decoded with: {made}")
        return made
