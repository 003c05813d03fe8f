"""Delta debugging: the fewest parts of a failing plan that still fail (Zeller's ddmin), and a transcript of the shortest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(parts: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """A part of `parts`, in their order, for which `fails` holds, and no longer when any one of it is left out.

    `fails(parts)` must hold. Asks about `len(parts)` squared times at worst, and twice its logarithm at best.
    """
    kept = list(parts)
    pieces = 2
    while len(kept) >= 2 or (kept and pieces == 1):
        size = max(1, len(kept) // pieces)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if fails(rest):
                kept, pieces = rest, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(kept), pieces * 2)
    return [] if len(kept) == 1 and fails([]) else kept
