"""Suggestions for messages about an unknown name: the nearest known one."""

from __future__ import annotations

from collections.abc import Iterable

_ALIKE = 0.75
"""Least similarity of a suggestion, 1 for equal names. Lower values suggest unrelated names."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to this one, ignoring case; None when none is similar."""
    from difflib import get_close_matches  # imported with the first mistake

    lowered = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), lowered, 1, _ALIKE)
    return lowered[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean retention.ms?", to be appended to a message; empty when no name is similar."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found is not None else ""
