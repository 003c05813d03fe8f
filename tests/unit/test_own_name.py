"""The program's name has one home, `kafkalite.NAME`: what is computed with it, or said and sent alone, comes from there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from kafkalite import NAME, OWN_SETTINGS, OWN_VARIABLES

ROOT = Path(__file__).parents[2]
HOME = ROOT / NAME / "__init__.py"


def literals(path: Path) -> Iterator[ast.Constant]:
    """Strings and bytes of a module, without the parts of f-strings."""
    tree = ast.parse(path.read_text())
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in parts:
            yield node


def test_no_module_says_the_name_for_itself() -> None:
    alone = {NAME, OWN_SETTINGS, OWN_VARIABLES, NAME.encode()}
    modules = [path for package in (NAME, "spark_jobs") for path in (ROOT / package).rglob("*.py") if path != HOME]
    assert len(modules) > 500
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}" for path in modules for node in literals(path) if node.value in alone
    ]
    assert not found, f"take it from kafkalite.NAME, OWN_SETTINGS or OWN_VARIABLES: {', '.join(found)}"


def test_what_the_name_is_made_of() -> None:
    assert (f"{NAME}.", f"{NAME.upper()}_") == (OWN_SETTINGS, OWN_VARIABLES)
