"""What somebody may have meant: the nearest name that there is, for messages about one that there is not."""

from __future__ import annotations

from collections.abc import Iterable

_ALIKE = 0.75
"""Of 1, which is the same. Less brings names that nobody meant."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, whatever its case; None when none is like it."""
    from difflib import get_close_matches  # imported with the first mistake

    lowered = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), lowered, 1, _ALIKE)
    return lowered[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ "; did you mean retention.ms?", to be put behind a message; empty when no name is like this one."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found is not None else ""
