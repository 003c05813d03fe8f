"""Figures over time in memory of a fixed size: a ring of points, which is allocated at once."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

_UNKNOWN: Final = math.nan


class Series:
    """The last `capacity` points of some figures. A figure that was unknown at a time is None."""

    def __init__(self, names: Sequence[str], capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a series of {capacity} points")
        self._times = array("q", bytes(8 * capacity))
        self._values = {name: array("d", bytes(8 * capacity)) for name in names}
        self._capacity = capacity
        self._next = self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def size_bytes(self) -> int:
        """Return the memory, however many points there are."""
        return 8 * self._capacity * (1 + len(self._values))

    def append(self, time_ms: int, values: Mapping[str, float | None]) -> None:
        """Replace the oldest point. Figures that `values` lacks are unknown."""
        self._times[self._next] = time_ms
        for name, ring in self._values.items():
            value = values.get(name)
            ring[self._next] = _UNKNOWN if value is None else value
        self._next = (self._next + 1) % self._capacity
        self._length = min(self._length + 1, self._capacity)

    def to_dict(self) -> dict[str, Any]:
        """Return `times` in ms, and `values` by name, the oldest first."""
        first = (self._next - self._length) % self._capacity
        order = [(first + number) % self._capacity for number in range(self._length)]
        return {
            "times": [self._times[index] for index in order],
            "values": {name: [_none_for_nan(ring[index]) for index in order] for name, ring in self._values.items()},
        }


def _none_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
