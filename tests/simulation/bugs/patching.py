"""A bug is texts of modules that become other ones; only the functions that hold them are exchanged, in the running program.

The changed source is compiled, and the code of each function that differs takes the place of the one that runs, under every name
that it was imported by. What the present source does not hold exactly once, or what is in no function, is an error.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

_WRAPPED: Final = ("__wrapped__", "__func__", "fget", "func")
"""Where decorators of the standard library and ours keep the function."""


class Edit(NamedTuple):
    """In `module`, `right` stands once; `wrong` takes its place."""

    module: str
    right: str
    wrong: str


class Bug(NamedTuple):
    """`story`: what went wrong, and where, in Kafka (its issue) or here."""

    name: str
    story: str
    edits: tuple[Edit, ...]


class Misplaced(Exception):
    """The source is not what it was when the bug was written down."""


@contextmanager
def put_in(bug: Bug) -> Iterator[None]:
    """The program has the bug meanwhile. Raises Misplaced."""
    exchanged: list[tuple[FunctionType, CodeType]] = []
    try:
        for name in dict.fromkeys(edit.module for edit in bug.edits):
            edits = [edit for edit in bug.edits if edit.module == name]
            for function, code in _changed(bug, importlib.import_module(name), edits):
                exchanged.append((function, function.__code__))
                function.__code__ = code
        yield
    finally:
        for function, code in reversed(exchanged):
            function.__code__ = code


def _changed(bug: Bug, module: ModuleType, edits: list[Edit]) -> list[tuple[FunctionType, CodeType]]:
    path = module.__file__ or ""
    source = before = Path(path).read_text()
    for edit in edits:
        if source.count(edit.right) != 1:
            raise Misplaced(f"{bug.name}: {module.__name__} has {source.count(edit.right)} times:\n{edit.right}")
        source = source.replace(edit.right, edit.wrong)
    old, new = _present_codes(path, before), _compiled(path, source)
    functions = _functions(module)
    found = [
        (functions[name], code) for name, code in new.items() if name in functions and _differs(code, old.get(name))
    ]
    if not found:
        raise Misplaced(f"{bug.name}: what changes in {module.__name__} is in no function")
    return found


@lru_cache
def _present_codes(path: str, source: str) -> dict[str, CodeType]:
    return _compiled(path, source)


def _compiled(path: str, source: str) -> dict[str, CodeType]:
    return _codes(compile(source, path, "exec", dont_inherit=True))


def _codes(code: CodeType) -> dict[str, CodeType]:
    """The functions and methods of a compiled module by qualified name."""
    found: dict[str, CodeType] = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.setdefault(constant.co_qualname, constant)
            if "<locals>" not in constant.co_qualname:
                found |= {name: each for name, each in _codes(constant).items() if "<locals>" not in name}
    return found


def _differs(one: CodeType, other: CodeType | None) -> bool:
    return other is None or _essence(one) != _essence(other)


def _essence(code: CodeType) -> tuple[Any, ...]:
    """All but the lines."""
    constants = tuple(_essence(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _functions(module: ModuleType) -> dict[str, FunctionType]:
    found: dict[str, FunctionType] = {}
    places: list[object] = [module]
    while places:
        for value in list(vars(places.pop()).values()):
            if isinstance(value, type) and value.__module__ == module.__name__ and value.__qualname__ not in found:
                found[value.__qualname__] = None  # type: ignore[assignment]
                places.append(value)
                continue
            function = _unwrapped(value)
            if function is not None and function.__module__ == module.__name__:
                found[function.__qualname__] = function
    return {name: function for name, function in found.items() if function is not None}


def _unwrapped(value: object) -> FunctionType | None:
    for attribute in _WRAPPED:
        inner = getattr(value, attribute, None) if not isinstance(value, type | ModuleType) else None
        if inner is not None and inner is not value:
            deeper = _unwrapped(inner)
            if deeper is not None:
                return deeper
    return value if isinstance(value, FunctionType) else None
