"""Which SCRAM credentials somebody has to set by hand on the other side, in either direction. Pure.

Brokers tell the mechanism and iterations of a credential (DescribeUserScramCredentials, KIP-554; KIP-1061 would have them tell more, and is
under discussion). They take the salted password (AlterUserScramCredentials), which cannot be computed from the stored key that they keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

Users = Mapping[str, Mapping[str, int]]
"""Iterations by mechanism, by user."""

_WHY: Final = "SCRAM credentials cannot be copied, since brokers do not give them out (KIP-554)"

_SHOWN: Final = 20
"""Users that are named of those whose passwords may have been changed, which are all."""


def tell_missing(wanted: Users, has: Users, side: str) -> list[str]:
    """Return a note about users of one side whose credentials the other `side` lacks."""
    missing = [text for _, text in _list_missing(wanted, has)]
    return [f"set the passwords of {', '.join(missing)} in the {side}: {_WHY}"] if missing else []


def tell_changes(then: Users, target: Users, source: Users) -> list[str]:
    """Return what is to be done in the source with users of the target, which had those of `then` at the switch."""
    missing = {name for name, _ in _list_missing(target, source)}
    changed = [
        name
        for name, now in sorted(target.items())
        if name not in missing and name in then and then[name] != now and source[name] != now
    ]
    deleted = sorted(name for name in then if name not in target and name in source)
    notes = tell_missing(target, source, "source")
    if changed:
        notes.append(f"set the passwords of {', '.join(changed)} in the source again: they were changed in the target")
    if deleted:
        notes.append(
            f"delete the SCRAM credentials of {', '.join(deleted)} in the source: the target has none any more"
        )
    if unseen := sorted(target.keys() - missing - set(changed)):
        names = ", ".join(unseen[:_SHOWN]) + (f" and {len(unseen) - _SHOWN} others" if len(unseen) > _SHOWN else "")
        why = "brokers do not tell of another password with as many iterations"
        notes.append(f"set the passwords of {names} in the source, if they were changed in the target: {why}")
    return notes


def _list_missing(wanted: Users, has: Users) -> Iterator[tuple[str, str]]:
    """Yield users, and their names with the mechanisms that are missing if they have others."""
    for name, mechanisms in sorted(wanted.items()):
        there = has.get(name, {})
        if lacking := sorted(mechanisms.keys() - there.keys()):
            yield name, f"{name} ({', '.join(lacking)})" if there else name
