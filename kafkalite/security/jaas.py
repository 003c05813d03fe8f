"""JAAS lines, as `sasl.jaas.config` and JAAS files have them: parsed, never executed. Pure.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";

A file has such lines in sections: `KafkaServer { ...; };`. Whatever class a line names, nothing is loaded (CVE-2023-25194): the name only
says which mechanism the options are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = r"""(?:\s|//[^\n]*|/\*.*?\*/|\#[^\n]*)*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[{};=]|[^\s{};="']+)"""
_BLANK: Final = r"(?:\s|//[^\n]*|/\*.*?\*/|\#[^\n]*)*"
_OF_JAVA: Final = r"""-Djava\.security\.auth\.login\.config==?(\S+)"""
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})


@dataclass(frozen=True, slots=True, repr=False)
class LoginModule:
    """One line: the class that Java would load, and its options. There is no `repr` with them: they are secrets."""

    name: str
    options: Mapping[str, str]


def jaas_file(setting: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the file that a setting names, else the one that KAFKA_OPTS gives to Java; None without any."""
    if setting:
        return setting
    found = re.search(_OF_JAVA, environment.get("KAFKA_OPTS", ""))
    return found[1].strip("\"'") if found is not None else None


def parse_jaas_line(text: str) -> LoginModule:
    """Return the one login module of a `sasl.jaas.config`. Raises ValueError, without the secrets, for anything else."""
    tokens = _Tokens(text)
    module = _module(tokens)
    if tokens.peek() is not None:
        raise ValueError("a JAAS configuration as a setting has one login module that ends with ;")
    return module


def parse_jaas_file(text: str) -> Mapping[str, tuple[LoginModule, ...]]:
    """Return the login modules of each section of a file. Raises ValueError, without the secrets, for malformed text."""
    tokens = _Tokens(text)
    sections: dict[str, tuple[LoginModule, ...]] = {}
    while (name := tokens.peek()) is not None:
        tokens.next_token()
        tokens.expect("{")
        modules = []
        while tokens.peek() != "}":
            modules.append(_module(tokens))
        tokens.expect("}")
        tokens.expect(";")
        if name in sections:
            raise ValueError(f"the JAAS section {name} appears twice")
        sections[name] = tuple(modules)
    return sections


class _Tokens:
    """The words and signs of a text, one ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = _split(text)
        self._next = next(self._tokens, None)

    def peek(self) -> str | None:
        return self._next

    def next_token(self) -> str:
        taken = self._next
        if taken is None:
            raise ValueError("a JAAS configuration ends in the middle; each login module ends with ;")
        self._next = next(self._tokens, None)
        return taken

    def expect(self, sign: str) -> None:
        if self.next_token() != sign:
            raise ValueError(f"a JAAS configuration lacks {sign!r}")


def _split(text: str) -> Iterator[str]:
    token, position = re.compile(_TOKEN, re.DOTALL), 0
    while found := token.match(text, position):
        position = found.end()
        yield found[1]
    if re.compile(_BLANK, re.DOTALL).fullmatch(text, position) is None:
        raise ValueError("a JAAS configuration has a quotation mark without its other one")


def _module(tokens: _Tokens) -> LoginModule:
    name, flag = tokens.next_token(), tokens.next_token()
    if flag.lower() not in _FLAGS:
        raise ValueError(f"the login module {name} is followed by none of {', '.join(sorted(_FLAGS))}")
    options: dict[str, str] = {}
    while (key := tokens.next_token()) != ";":
        tokens.expect("=")
        options[key] = _unquote(tokens.next_token())
    return LoginModule(name, options)


def _unquote(token: str) -> str:
    if token[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
    return token
