"""The contexts file: which clusters there are, and which one is meant when nothing else is said. TOML:

    current-context = "staging"

    [contexts.staging]
    bootstrap.servers = "kafka-1:9092,kafka-2:9092"
    zookeeper.connect = "zookeeper-1:2181/kafka"
    security.protocol = "SSL"

A context holds settings of clients by Java's dotted names, and `zookeeper.connect`. Edits change the lines that they are about and keep
all others, comments included; a file written so that this cannot be done is left alone. Pure, but for the three functions at the end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

CURRENT: Final = "current-context"
PROJECT_FILE: Final = "kafkalite.toml"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_HEADER: Final = re.compile(r"\s*\[")


class ContextError(Exception):
    """Raised for an invalid contexts file. The message names file and key, and says what to do."""


@dataclass(frozen=True, slots=True)
class ContextFile:
    """The content of a file: `contexts` has settings by dotted names, per context; `current` is None when the file names none."""

    path: Path
    current: str | None = None
    contexts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def parse(text: str, path: Path) -> ContextFile:
    """Return the contexts in a file's text. Raises ContextError."""
    if not text:
        return ContextFile(path)  # most users have none: their commands need not load a parser
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ContextError(f"{path}: it is not TOML: {problem}") from None
    contexts = document.pop("contexts", {})
    current = document.pop(CURRENT, None)
    for key in document:
        raise ContextError(f"{path}: {key}: unknown; a contexts file has {CURRENT} and [contexts.NAME]")
    if current is not None and not isinstance(current, str):
        raise ContextError(f"{path}: {CURRENT}: it must be a context's name in quotes")
    if not isinstance(contexts, dict):
        raise ContextError(f"{path}: contexts: it must be written as [contexts.NAME]")
    found = {}
    for name, settings in contexts.items():
        if not isinstance(settings, dict):
            raise ContextError(f"{path}: contexts.{name}: it must be written as [contexts.{name}]")
        found[name] = dict(_flat(settings, "", f"{path}: context {name}"))
    return ContextFile(path, current, found)


def _flat(settings: Mapping[str, Any], prefix: str, where: str) -> Iterable[tuple[str, str]]:
    """Yield settings by dotted names, whether the names were quoted or not (TOML makes tables of the latter)."""
    for key, value in settings.items():
        name = prefix + key
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.", where)
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, str | int | float):
            yield name, str(value)
        elif isinstance(value, list) and all(isinstance(each, str) for each in value):
            yield name, ",".join(value)
        else:
            raise ContextError(f"{where}: {name}: it must be a text, a number, true or false")


def check_name(name: str) -> None:
    """Raise ContextError for an invalid name of a context."""
    if _NAME.fullmatch(name) is None:
        raise ContextError(f"{name!r} cannot be a context's name: use letters, digits, dots, dashes and underscores")


# edits of the text


def with_current(text: str, path: Path, name: str | None) -> str:
    """Return the text with another current context; None removes it."""
    lines = text.splitlines()
    new = [] if name is None else [f"{CURRENT} = {_as_json(name)}"]
    top = next((index for index, line in enumerate(lines) if _HEADER.match(line)), len(lines))
    at = next((index for index in range(top) if _key_of(lines[index]) == CURRENT), None)
    if at is not None:
        lines[at : at + 1] = new
    elif new:
        lines[0:0] = [*new, ""] if lines else new
    old = parse(text, path)
    return _check_text(lines, ContextFile(path, name, old.contexts))


def with_settings(text: str, path: Path, name: str, changes: Mapping[str, str | None]) -> str:
    """Return the text with some settings of a context changed; None removes one. A new context is added."""
    old = parse(text, path)
    lines = text.splitlines()
    begin, end = _section(lines, name)
    if begin < 0:
        lines += ["", _header(name)] if lines and lines[-1].strip() else [_header(name)]
        begin = end = len(lines)
    section = lines[begin:end]
    for key, value in changes.items():
        new = [] if value is None else [f"{_dotted_key(key)} = {_as_json(value, ensure_ascii=False)}"]
        at = next((index for index, line in enumerate(section) if _key_of(line) == key), None)
        if at is not None:
            section[at : at + 1] = new
        else:
            filled = [index for index, line in enumerate(section) if line.strip()]
            after = filled[-1] + 1 if filled else 0
            section[after:after] = new
    lines[begin:end] = section
    settings = {**old.contexts.get(name, {}), **{key: value for key, value in changes.items() if value is not None}}
    settings = {key: value for key, value in settings.items() if key not in changes or changes[key] is not None}
    return _check_text(lines, ContextFile(path, old.current, {**old.contexts, name: settings}))


def without_context(text: str, path: Path, name: str) -> str:
    """Return the text without a context, which is no longer the current one either."""
    old = parse(text, path)
    lines = text.splitlines()
    begin, end = _section(lines, name)
    if begin > 0:
        del lines[begin - 1 : end]
    contexts = {each: settings for each, settings in old.contexts.items() if each != name}
    left = _check_text(lines, ContextFile(path, old.current, contexts))
    return with_current(left, path, None) if old.current == name else left


def _section(lines: list[str], name: str) -> tuple[int, int]:
    """Return where the lines of a context start, behind its header, and end; (-1, -1) without such a header."""
    for index, line in enumerate(lines):
        if line.split("#")[0].strip() in (_header(name), f'[contexts."{name}"]'):
            rest = range(index + 1, len(lines))
            return index + 1, next((each for each in rest if _HEADER.match(lines[each])), len(lines))
    return -1, -1


def _header(name: str) -> str:
    return f"[contexts.{name if _BARE.fullmatch(name) else _as_json(name)}]"


def _dotted_key(key: str) -> str:
    """Return a key as TOML writes it: dots may stand bare, anything unusual is quoted."""
    return key if all(_BARE.fullmatch(part) for part in key.split(".")) else _as_json(key)


def _as_json(text: str, ensure_ascii: bool = True) -> str:
    import json  # only edits write

    return json.dumps(text, ensure_ascii=ensure_ascii)


def _key_of(line: str) -> str | None:
    """Return the dotted key that a line sets, quoted or not."""
    key, equals, _ = line.partition("=")
    key = key.strip()
    if not equals or key.startswith("#"):
        return None
    return key[1:-1] if key[:1] == key[-1:] and key[:1] in ('"', "'") else key


def _check_text(lines: list[str], expected: ContextFile) -> str:
    """Return the lines as text. Raises ContextError unless they parse as intended."""
    text = "\n".join(lines).rstrip("\n") + "\n" if any(lines) else ""
    try:
        found = parse(text, expected.path)
    except ContextError:
        found = None
    if found != expected:
        raise ContextError(f"{expected.path}: it is written in a way that cannot be edited safely; edit it by hand")
    return text


# files


def read(path: Path) -> str:
    """Return a file's text, empty when there is none. Raises ContextError when it cannot be read."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except PermissionError as problem:
        if not os.access(path.parent, os.X_OK):
            return ""  # another user's home, as for a program in a container that was given a user of its own
        raise ContextError(f"{path}: it cannot be read: {problem.strerror}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise ContextError(f"{path}: it cannot be read: {problem}") from None


def write(path: Path, text: str) -> None:
    """Replace the file at once; a new one is readable by its owner only, since settings may be secrets. ContextError."""
    import tempfile

    path = path.resolve()  # a link stays a link
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # of mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        if path.exists():
            os.chmod(name, path.stat().st_mode)
        os.replace(name, path)
    except OSError as problem:
        raise ContextError(f"{path}: it cannot be written: {problem.strerror}") from None


def find_project_file(directory: Path) -> Path | None:
    """Return `kafkalite.toml` in the directory or the nearest one above it."""
    return next(
        (each / PROJECT_FILE for each in (directory, *directory.parents) if (each / PROJECT_FILE).is_file()), None
    )
