"""What programs import, from its docstrings: classes with their public methods, functions, and the rest by what it is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import kafkalite.client
import kafkalite.testing
from deploy.docs.docstrings import markdown, prose


def _signature(described: Any) -> str:
    try:
        found = str(inspect.signature(described))
    except (TypeError, ValueError):
        return "(…)"
    return re.sub(r"'", "", re.sub(r"<[^>]*>", "…", found))


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
    names = module.__all__
    parts = [_described(name, getattr(module, name)) for name in names]
    return f"# {title}\n\n{markdown(module.__doc__ or '')}\n\n" + "\n".join(parts)


def client() -> str:
    return _page("API of kafkalite.client", kafkalite.client)


def testing() -> str:
    return _page("API of kafkalite.testing", kafkalite.testing)
