"""From the name of a Kerberos principal to that of Kafka's: `sasl.kerberos.principal.to.local.rules`. Pure.

    RULE:[2:$1@$0](.*@EXAMPLE\\.COM)s/@.*//,RULE:[1:$1](.*)s/^(.*)-user$/$1/L,DEFAULT

A rule is for names of so many components: the text between the brackets is made of them ($0 is the realm), must match what is in
parentheses, and is changed by the substitution; DEFAULT is the first component of names in the default realm. The first rule that
applies counts (Kafka's `KerberosShortNamer`). A pattern that Python cannot read is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"([^/@]+)(?:/([^/@]+))?(?:@([^/@]+))?")
_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:\[(\d+):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?",
)
_PARAMETER: Final = re.compile(r"\$(\d)")
_GROUP: Final = re.compile(r"\$(\d)|\\(.)")


class NoMatchingRule(ValueError):
    """Raised when no rule maps a principal, which is then refused."""


class KerberosName(NamedTuple):
    """`service/host@realm`, `user@realm`."""

    service: str
    host: str | None
    realm: str | None

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        """Parse the name of a principal. Raises ValueError."""
        found = _NAME.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no name of a Kerberos principal")
        return cls(*found.groups())

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the components as rules count them, the realm first."""
        return (self.realm or "", self.service, *([] if self.host is None else [self.host]))


@dataclass(frozen=True, slots=True)
class _Rule:
    components: int
    """0: DEFAULT."""
    form: str = ""
    pattern: re.Pattern[str] | None = None
    substitution: re.Pattern[str] | None = None
    replacement: str = ""
    is_global: bool = False
    case: str = ""

    def apply(self, parts: tuple[str, ...], default_realm: str) -> str | None:
        if not self.components:
            result = parts[1] if parts[0] == default_realm else None
        elif self.components != len(parts) - 1:
            result = None
        else:
            result = self._apply_substitution(_PARAMETER.sub(lambda sign: parts[int(sign[1])], self.form))
        if result is not None and re.search(r"[/@]", result):
            raise NoMatchingRule(f"a rule makes {result!r} of a name, which is not simple")
        return result

    def _apply_substitution(self, base: str) -> str | None:
        if self.pattern is not None and self.pattern.fullmatch(base) is None:
            return None
        if self.substitution is not None:
            base = self.substitution.sub(self._replacement, base, count=0 if self.is_global else 1)
        return base.lower() if self.case == "L" else base.upper() if self.case == "U" else base

    def _replacement(self, found: re.Match[str]) -> str:
        return _GROUP.sub(lambda sign: sign[2] if sign[1] is None else (found[int(sign[1])] or ""), self.replacement)


class KerberosShortNames:
    """The rules of `sasl.kerberos.principal.to.local.rules`. Raises ValueError for rules that cannot be parsed."""

    def __init__(self, rules: tuple[str, ...] = ("DEFAULT",)) -> None:
        self._rules = [_rule(text.strip()) for text in rules]

    def short_name(self, principal: str, default_realm: str) -> str:
        """Return the short name of a Kerberos principal. Raises NoMatchingRule, and ValueError for no principal."""
        name = KerberosName.parse(principal)
        if name.realm is None and name.host is None:
            return name.service
        for rule in self._rules:
            if (result := rule.apply(name.parts, default_realm)) is not None:
                return result
        raise NoMatchingRule(f"no rule of sasl.kerberos.principal.to.local.rules applies to {principal}")


def _rule(text: str) -> _Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} must be DEFAULT or RULE:[n:text](pattern)s/pattern/replacement/g/[LU]")
    if found[1]:
        return _Rule(0)
    components, form = int(found[2]), found[3]
    if any(int(number) > components for number in _PARAMETER.findall(form)) or not components:
        raise ValueError(f"{text!r} names a component that is not there")
    try:
        pattern = re.compile(found[4]) if found[4] is not None else None
        substitution = re.compile(found[5]) if found[5] is not None else None
        groups = 0 if substitution is None else substitution.groups
    except re.error as problem:
        raise ValueError(f"a pattern of {text!r} cannot be read: {problem}") from None
    replacement = found[6] or ""
    if any(sign[1] is not None and int(sign[1]) > groups for sign in _GROUP.finditer(replacement)):
        raise ValueError(f"{text!r} names a group that is not there")
    return _Rule(components, form, pattern, substitution, replacement, bool(found[7]), found[8] or "")
