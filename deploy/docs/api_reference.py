"""What programs import, from its docstrings: a page for each class with many methods, and the rest on pages with its like."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any, Final

import kafkalite.client
import kafkalite.testing
from deploy.docs.docstrings import cell, markdown, prose
from deploy.docs.reference import Reference, slug, with_anchors

_WIDTH: Final = 90
_FIRST: Final = ("Producer", "SyncProducer", "Consumer", "SyncConsumer", "Admin", "SyncAdmin", "LocalCluster")
"""What most readers look for; the rest comes by name."""
_METHODS_OF_A_PAGE: Final = 7


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


def _member(name: str, member: Any, *, has_heading: bool) -> str:
    """Describe a method or property. With a heading it can be linked to, which takes a page where no other class has its name."""
    is_property = isinstance(member, property)
    function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
    kind = "async " if inspect.iscoroutinefunction(function) else ""
    title = f"## {name}\n" if has_heading else f"**`{kind}{name}`**" + (" (property)\n" if is_property else "\n")
    if is_property:
        return f"{title}\n{'A property. ' if has_heading else ''}{markdown(member.__doc__ or '')}\n"
    call = f"```text\n{kind if has_heading else ''}{name}{_signature(function)}\n```"
    return f"{title}\n{call}\n\n{markdown(function.__doc__ or '')}\n"


def _described(name: str, found: Any, *, on_own_page: bool) -> str:
    heading = f"{'#' if on_own_page else '##'} {name}"
    if inspect.isclass(found):
        members = "\n".join(_member(each, member, has_heading=on_own_page) for each, member in _members(found))
        is_exception = issubclass(found, BaseException)
        signature = "" if is_exception else f"```text\n{name}{_signature(found)}\n```\n\n"
        return f"{heading}\n\n{signature}{prose(found)}\n\n{'' if is_exception else members}"
    if inspect.isroutine(found):
        return f"{heading}\n\n```text\n{name}{_signature(found)}\n```\n\n{markdown(found.__doc__ or '')}\n"
    return f"{heading}\n\n```text\n{name} = {re.sub(r' at 0x[0-9a-f]+', '', str(found))}\n```\n"


def _summary(found: Any) -> str:
    """The first sentence of a docstring."""
    text = " ".join((inspect.getdoc(found) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[.:]) ", text)[0].rstrip(":")


def _has_own_page(found: Any) -> bool:
    return inspect.isclass(found) and len(list(_members(found))) >= _METHODS_OF_A_PAGE


def _client_page(name: str, found: Any) -> str:
    """Return the title of the page that describes a name of the client: its own, or one with its like."""
    if inspect.isclass(found) and issubclass(found, BaseException):
        return "Errors"
    if _has_own_page(found):
        return name
    if name.endswith(("Options", "Keywords")):
        return "Options"
    if name.endswith(("Assignor", "Listener", "Clock")):
        return "Assignors, listeners and clocks"
    if isinstance(found, int) or (inspect.isclass(found) and issubclass(found, int)):
        return "Enumerations and constants"
    return "Records, descriptions and results" if inspect.isclass(found) else "Functions and types"


def _testing_page(name: str, found: Any) -> str:
    return name if _has_own_page(found) else "Faults, frozen clusters and simulations"


def _reference(module: ModuleType, folder: str, find_page: Callable[[str, Any], str]) -> Reference:
    """Describe a module's public names, those that most look for first; `folder` has the pages below the overview."""
    groups: dict[str, list[str]] = {}
    for name in sorted(module.__all__, key=lambda name: (name not in _FIRST, name.removeprefix("Sync"), name)):
        groups.setdefault(find_page(name, getattr(module, name)), []).append(name)
    pages = {slug(name): name for name in groups}

    def text(title: str) -> str:
        names = groups[title]
        if names == [title]:
            return _described(title, getattr(module, title), on_own_page=True)
        members = [_described(each, getattr(module, each), on_own_page=False) for each in names]
        listed = ", ".join(f"[{each}](#{slug(each)})" for each in names)
        return f"# {title}\n\nNames of `{module.__name__}`: {listed}.\n\n" + "\n".join(members)

    def overview() -> str:
        rows = []
        for page, group_name in pages.items():
            for name in groups[group_name]:
                link = f"{folder}/{page}.md" + (f"#{slug(name)}" if name != group_name else "")
                rows.append(
                    f"| {with_anchors(f'[`{name}`]({link})', [name])} | {cell(_summary(getattr(module, name)))} |"
                )
        table = "\n".join(rows)
        return f"# API of {module.__name__}\n\n{markdown(module.__doc__ or '')}\n\n| Name | What it is |\n|---|---|\n{table}\n"

    return Reference(overview, {page: partial(text, name) for page, name in pages.items()})


def client() -> Reference:
    return _reference(kafkalite.client, "client-api", _client_page)


def testing() -> Reference:
    return _reference(kafkalite.testing, "testing-api", _testing_page)
