"""The table of the battery names tests that exist, and has every test of the battery in a row."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.system.__main__ import Progress
from tests.system.rows import ROWS

ROOT = Path(__file__).parents[2]


def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_rows_name_tests_that_exist() -> None:
    for number, row in ROWS.items():
        assert row.tests, number
        for test in row.tests:
            path, _, name = test.partition("::")
            assert (ROOT / path).is_file(), test
            assert not name or name in functions_of(ROOT / path), test


def test_every_test_of_the_battery_is_in_a_row() -> None:
    named = {test for row in ROWS.values() for test in row.tests}
    for path in (ROOT / "tests/system/battery").glob("*.py"):
        for name in functions_of(path):
            assert not name.startswith("test_") or f"{path.relative_to(ROOT)}::{name}" in named, name


def test_rows_are_counted_from_1_to_55_and_the_last_is_the_soak() -> None:
    assert sorted(ROWS) == list(range(1, 55))


def test_a_row_may_name_a_file_a_test_or_all_of_its_forms() -> None:
    progress = Progress()
    progress.ran = {"a.py::test_x", "a.py::test_y[1]", "b.py::test_x", "b.py::test_xx"}
    progress.failed = {"b.py::test_xx"}
    assert progress.of(("a.py",)) == ("passed", 0, 2)
    assert progress.of(("a.py::test_y", "b.py::test_x")) == ("passed", 0, 2)
    assert progress.of(("b.py",)) == ("FAILED", 0, 2)
    assert progress.of(("c.py",)) == ("not run", 0, 0)
