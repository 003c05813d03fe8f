"""The published vulnerabilities of ZooKeeper's versions, by the advisories of its project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

Version: TypeAlias = "tuple[int, ...]"


class _Advisory(NamedTuple):
    """Affects versions from `since` on, in each line of releases up to its first one in `fixed`; lines after the last one are not
    affected.
    """

    name: str
    since: Version
    fixed: tuple[Version, ...]


_FIRST_WITHOUT_KNOWN: Final = ((3, 8, 7), (3, 9, 6))
"""Where an advisory names no range, all versions before these count as affected."""

_ADVISORIES: Final = (
    _Advisory("CVE-2019-0201", (0,), ((3, 4, 14), (3, 5, 5))),
    _Advisory("CVE-2023-44981", (0,), ((3, 7, 2), (3, 8, 3), (3, 9, 1))),
    _Advisory("CVE-2024-23944", (3, 6, 0), ((3, 8, 4), (3, 9, 2))),
    _Advisory("CVE-2024-51504", (3, 9, 0), ((3, 9, 3),)),
    _Advisory("CVE-2025-58457", (3, 9, 0), ((3, 9, 4),)),
    _Advisory("CVE-2026-24281", (3, 8, 0), ((3, 8, 6), (3, 9, 5))),
    _Advisory("CVE-2026-24308", (3, 8, 0), ((3, 8, 6), (3, 9, 5))),
    _Advisory("CVE-2026-59739", (0,), _FIRST_WITHOUT_KNOWN),
    _Advisory("CVE-2026-59969", (3, 8, 2), _FIRST_WITHOUT_KNOWN),  # `fips-mode` came with 3.8.2
    _Advisory("CVE-2026-79993", (3, 9, 0), ((3, 9, 6),)),
)
WITHOUT_KNOWN: Final = " or ".join(".".join(map(str, each)) for each in reversed(_FIRST_WITHOUT_KNOWN))


def open_to(version: str) -> list[str]:
    """Return the names of the advisories that affect a version; none for a text that is no version."""
    found = re.match(r"\d+(\.\d+)+", version)
    return list(_open_to(tuple(map(int, found[0].split("."))))) if found else []


def _open_to(version: Version) -> Iterator[str]:
    for name, since, fixed in _ADVISORIES:
        in_line = [each for each in fixed if each[:2] == version[:2]]
        if version >= since and version < (in_line or fixed)[-1]:
            yield name
