"""Table checks as loops: one test looks at every row, and a failure says which row it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(name: object) -> Iterator[None]:
    """What fails inside is raised again with the row's name in front."""
    try:
        yield
    except Exception as problem:
        raise AssertionError(f"in the case of {name}: {problem}") from problem
