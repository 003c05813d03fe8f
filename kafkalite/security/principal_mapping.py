"""From the name in a client's certificate to a principal's name: `ssl.principal.mapping.rules` (KIP-371). Pure.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1@$2/,DEFAULT

The first rule whose pattern matches all of the name gives the name; DEFAULT leaves it as it is. A pattern that Python cannot read is
refused.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_RULE: Final = r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)"
_GROUP: Final = r"\$(\d)|\\(.)"


class NoMatchingRule(ValueError):
    """Raised when no rule maps the owner of a certificate, which is then refused."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None: DEFAULT."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        groups = found.re.groups

        def part(sign: re.Match[str]) -> str:
            if sign[1] is None:
                return sign[2]
            return (found[int(sign[1])] or "") if int(sign[1]) <= groups else sign[0]

        result = re.sub(_GROUP, part, self.replacement)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result


class PrincipalMapping:
    """The rules of `ssl.principal.mapping.rules`. Raises ValueError for rules that cannot be parsed."""

    def __init__(self, rules: str = "DEFAULT") -> None:
        self._rules: list[_Rule] = []
        position = 0
        text = rules.strip() or "DEFAULT"
        while position < len(text):
            found = re.compile(_RULE).match(text, position)
            if found is None:
                raise ValueError(f"{text[position:]!r} must be DEFAULT or RULE:pattern/replacement/[LU]")
            try:
                pattern = None if found[1] else re.compile(found[2].replace(r"\/", "/"))
            except re.error as problem:
                raise ValueError(f"the pattern {found[2]!r} cannot be read: {problem}") from None
            self._rules.append(_Rule(pattern, (found[3] or "").replace(r"\/", "/"), found[4] or ""))
            position = found.end()

    def name_of(self, distinguished_name: str) -> str:
        """Return the principal's name for the owner of a certificate with this name. Raises NoMatchingRule."""
        for rule in self._rules:
            if (name := rule.apply(distinguished_name)) is not None:
                return name
        raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules applies to {distinguished_name}")
