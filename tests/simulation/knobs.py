"""Sizes of the product that are smaller in some runs, so that a few kB or partitions take the ways that in production only many do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from kafkalite.broker.connections import response_writer
from kafkalite.broker.fetch import fetch_sessions, partition_reader
from kafkalite.broker.replication import fetch_states
from kafkalite.controller import known_metadata
from kafkalite.protocol.schemas import compiler
from kafkalite.storage.log import file_records, log_read

_HEADS: Final = 2
"""A head is half as long as a portion, so that no boundary of the one lies on one of the other."""
_SIZES: Final[tuple[tuple[ModuleType, str, float], ...]] = (
    (log_read, "HEAD_BYTES", 1 / _HEADS),
    (log_read, "LARGE_BYTES", 1.2),
    (log_read, "_LARGE_BATCH_BYTES", 0.6),
    (file_records, "PORTION_BYTES", 1),
    (partition_reader, "PORTION_BYTES", 1),
    (compiler, "_JOIN_BELOW_BYTES", 0.5),
    (response_writer, "WRITE_BUFFER_BYTES", 1),
)


_WAYS_OF_LARGE_CLUSTERS: Final[tuple[tuple[ModuleType, str, int], ...]] = (
    (known_metadata, "DIFFERENCES_FROM", 1),
    (fetch_states, "_WAITS_FROM", 1),
    (fetch_sessions, "_MANY", 1),
)


@contextmanager
def portions_of(size_bytes: int) -> Iterator[None]:
    """Have records sent in portions of so many bytes meanwhile, and connections paused that have not taken one; 0 for the usual sizes."""
    sizes = [(module, name, int(size_bytes * factor)) for module, name, factor in _SIZES] if size_bytes else []
    with _set(sizes):
        yield


@contextmanager
def ways_of_large_clusters(*, are_taken: bool) -> Iterator[None]:
    """Have new controllers ask brokers which metadata they have, and followers put off idle partitions, however few there are."""
    with _set(_WAYS_OF_LARGE_CLUSTERS if are_taken else ()):
        yield


@contextmanager
def _set(values: Iterable[tuple[ModuleType, str, int]]) -> Iterator[None]:
    before: list[tuple[ModuleType, str, Any]] = []
    try:
        for module, name, value in values:
            before.append((module, name, getattr(module, name)))
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
