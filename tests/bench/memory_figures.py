"""How much memory one thing takes: pure, figures of a broker before and after in, bytes for each out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

LARGEST: Final = 12
"""Types of objects that are told of."""

_CLASS: Final = re.compile(r"^\s*\d+:\s+\d+\s+(\d+)\s+(\S+)", re.MULTILINE)
_TOTAL: Final = re.compile(r"^Total\s+\d+\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Weight:
    """Bytes of a process: those in RAM, those of its live objects, and these by type."""

    resident: int
    live: int
    types: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Each:
    """Bytes for one thing, and the types whose objects grew most with it, the largest first."""

    resident: float
    live: float
    types: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def bytes_for_each(empty: Weight, full: Weight, count: int) -> Each:
    """Return what each of `count` things added to a broker. ValueError where there are none."""
    if count < 1:
        raise ValueError(f"{count} things have no weight each; compare two different numbers of them")
    grown = {name: (size - empty.types.get(name, 0)) / count for name, size in full.types.items()}
    largest = sorted((name for name in grown if grown[name] >= 1), key=lambda name: -grown[name])[:LARGEST]
    return Each(
        (full.resident - empty.resident) / count,
        (full.live - empty.live) / count,
        {name: grown[name] for name in largest},
    )


def parse_histogram(text: str) -> tuple[int, dict[str, int]]:
    """Return bytes of all live objects and by class, of what `jcmd PID GC.class_histogram` prints. ValueError for anything else."""
    total = _TOTAL.search(text)
    if total is None:
        raise ValueError(f"no total in the histogram of a Java machine: {text[:200]!r}")
    types: dict[str, int] = {}
    for size, name in _CLASS.findall(text):
        types[name] = types.get(name, 0) + int(size)
    return int(total[1]), types


@dataclass(frozen=True)
class Limits:
    """What the system lets a process have."""

    descriptors: int
    memory_maps: int


SPARE: Final = 5000
"""Descriptors and memory maps that a broker has besides."""

MAPS_OF_LOG: Final = 2
"""Apache Kafka maps the two indexes of a partition's last segment, and keeps the segment open."""


def find_obstacle(kind: str, count: int, limits: Limits, *, keeps_logs_open: bool) -> str | None:
    """Return why the system does not let a broker have so many of a kind, None where it does."""
    has_logs = kind == "topic" and keeps_logs_open
    descriptors = count + SPARE if has_logs or kind == "connection" else SPARE
    if descriptors > limits.descriptors:
        return f"{descriptors:,} file descriptors are needed, the system allows {limits.descriptors:,} (RLIMIT_NOFILE)"
    maps = count * MAPS_OF_LOG + SPARE
    if has_logs and maps > limits.memory_maps:
        return f"{maps:,} memory maps are needed, the system allows {limits.memory_maps:,} (vm.max_map_count)"
    return None
