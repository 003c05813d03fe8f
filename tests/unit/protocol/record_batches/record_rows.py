"""Rows of records, generated, and what calls do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

COMPILED: Final = "kafkalite.protocol.record_batches._records"
LARGEST: Final = (1 << 63) - 1
EDGES: Final = (0, 7, 1 << 40, LARGEST, -5, -(1 << 63))
"""Base offsets, base timestamps, and where a search begins."""


class Outcome(NamedTuple):
    result: Any
    error: str = ""


def outcome(call: Callable[..., Any], *arguments: Any) -> Outcome:
    """What a call returns, or the error that it raises; text of errors is compared where both have written it."""
    try:
        return Outcome(call(*arguments))
    except ValueError as problem:
        return Outcome(None, f"{type(problem).__name__}: {problem}")
    except (OverflowError, TypeError) as problem:
        return Outcome(None, type(problem).__name__)


contents = st.none() | st.binary(max_size=100) | st.integers(0, 9000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=3)
rows = st.lists(
    st.tuples(st.integers(-(1 << 63), LARGEST) | st.integers(0, 200), contents, contents, headers), max_size=20
)
