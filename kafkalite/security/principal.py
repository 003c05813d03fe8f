"""The identity of a connection's client (Kafka's KafkaPrincipal)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

USER: Final = "User"
"""The one type of principals that authentication gives."""


@dataclass(frozen=True, slots=True)
class KafkaPrincipal:
    """Type and name; `by_token`: proven with a delegation token, which does not make somebody else of it."""

    type: str
    name: str
    by_token: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> KafkaPrincipal:
        """Parse `Type:name`. Raises ValueError for another text."""
        kind, colon, name = text.partition(":")
        if not colon or not kind or not name:
            raise ValueError(f"{text!r} must be a principal such as {USER}:name")
        return cls(kind, name)

    @classmethod
    def from_stored(cls, text: str) -> KafkaPrincipal:
        """Parse a principal as brokers store it, `Type:name`, both of which may be empty. Raises ValueError without a colon."""
        kind, colon, name = text.partition(":")
        if not colon:
            raise ValueError(f"{text!r} is no principal: it has no colon")
        return cls(kind, name)


ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
"""The principal of unauthenticated clients."""


def principals_in(text: str) -> frozenset[KafkaPrincipal]:
    """Return the principals `Type:name` between semicolons, as in `super.users`. Raises ValueError for malformed text."""
    return frozenset(KafkaPrincipal.parse(each.strip()) for each in text.split(";") if each.strip())
