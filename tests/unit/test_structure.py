"""What holds for all modules: none imports another one that, directly or not, imports it, for its types neither; none may lose a
cancellation in `asyncio.wait_for`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("kafkalite", "zk", "spark_jobs")


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Wherever in the file the import stands: at the top, in a function, for type checkers alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            of_modules = [f"{node.module}.{each.name}" for each in node.names]
            yield from (each if each in known else node.module for each in of_modules)


def test_no_modules_import_each_other() -> None:
    known = modules()
    assert len(known) > 500
    graph = {name: set(imported(path, known)) for name, path in known.items()}
    assert any(graph.values())
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as problem:
        raise AssertionError(" imports ".join(reversed(problem.args[1]))) from None


def test_no_module_waits_with_what_forgets_cancellations() -> None:
    """Up to Python 3.11 `asyncio.wait_for` returns the result and forgets the cancellation when both come together; `asyncio.timeout` does
    not. A task that goes on is waited for by whoever cancelled it: so a broker did not end."""
    found = [
        f"{name}:{node.lineno}"
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.wait_for"
    ]
    assert not found, f"use asyncio.timeout instead of asyncio.wait_for: {', '.join(found)}"
