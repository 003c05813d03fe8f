"""What programs import, from its docstrings: classes with their public methods, functions, and the rest by what it is."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import kafkalite.client
import kafkalite.testing
from deploy.docs.docstrings import markdown, prose

_WIDTH: Final = 90
_FIRST: Final = ("Producer", "SyncProducer", "Consumer", "SyncConsumer", "Admin", "SyncAdmin", "LocalCluster")
"""What most readers look for; the rest comes by name."""


class _Annotation(str):
    """Shown as it is written."""

    __repr__ = str.__str__


def _plain(annotation: Any) -> Any:
    """Named tuples keep theirs in a wrapper, the others are texts."""
    found = getattr(annotation, "__forward_arg__", annotation)
    return _Annotation(found) if isinstance(found, str) else found


def _signature(described: Any) -> str:
    try:
        found = inspect.signature(described)
    except (TypeError, ValueError):
        return "(…)"
    parameters = [each.replace(annotation=_plain(each.annotation)) for each in found.parameters.values()]
    plain = found.replace(parameters=parameters, return_annotation=_plain(found.return_annotation))
    return _folded(re.sub(r"<[^>]*>", "…", str(plain)).replace(sys.executable, "python"))


def _folded(signature: str) -> str:
    """One parameter to a line where all of them would not fit."""
    if len(signature) <= _WIDTH:
        return signature
    depth, is_quoted, lines = 0, False, [""]
    for character in signature:
        is_quoted ^= character == "'"
        depth += (character in "([{") - (character in ")]}")
        if character == ")" and depth == 0:
            lines.append("")
        lines[-1] += character
        if character in "(," and depth == 1 and not is_quoted:
            lines.append("   " if character == "," else "    ")
    return "\n".join(line.rstrip() for line in lines)


def _members(owner: type[Any]) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that the class itself or one of ours has, in order of definition."""
    seen = set()
    for base in owner.__mro__:
        if not base.__module__.startswith("kafkalite."):
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(member, staticmethod | classmethod | property) or inspect.isfunction(member):
                yield name, member


def _member(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"**`{name}`** (property)\n\n{markdown(member.__doc__ or '')}\n"
    function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
    kind = "async " if inspect.iscoroutinefunction(function) else ""
    return f"**`{kind}{name}`**\n\n```text\n{name}{_signature(function)}\n```\n\n{markdown(function.__doc__ or '')}\n"


def _described(name: str, found: Any) -> str:
    if inspect.isclass(found):
        members = "\n".join(_member(each, member) for each, member in _members(found))
        is_exception = issubclass(found, BaseException)
        signature = "" if is_exception else f"```text\n{name}{_signature(found)}\n```\n\n"
        return f"## {name}\n\n{signature}{prose(found)}\n\n{'' if is_exception else members}"
    if inspect.isroutine(found):
        return f"## {name}\n\n```text\n{name}{_signature(found)}\n```\n\n{markdown(found.__doc__ or '')}\n"
    return f"## {name}\n\n```text\n{name} = {re.sub(r' at 0x[0-9a-f]+', '', str(found))}\n```\n"


def _page(title: str, module: ModuleType) -> str:
    names = sorted(module.__all__, key=lambda name: (name not in _FIRST, name.removeprefix("Sync"), name))
    parts = [_described(name, getattr(module, name)) for name in names]
    return f"# {title}\n\n{markdown(module.__doc__ or '')}\n\n" + "\n".join(parts)


def client() -> str:
    return _page("API of kafkalite.client", kafkalite.client)


def testing() -> str:
    return _page("API of kafkalite.testing", kafkalite.testing)
