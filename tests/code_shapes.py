"""`python -m tests.code_shapes`: shapes of code that this project does not write, where they still are.

A finding has a rule, a file and a name. tests/code_shapes.txt lists those that are left; tests/unit/test_code_shapes.py refuses any other.
`--shrink` takes out of the list what is there no more; nothing but an editor puts new ones in.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = ("kafkalite", "zk", "spark_jobs")
EXCEPTIONS: Final = Path(__file__).with_suffix(".txt")

LINES_MAX: Final = 500
MODULES_MAX: Final = 25
FUNCTION_LINES_MAX: Final = 60
METHODS_MAX: Final = 40

LONG_MODULES: Final = {
    "kafkalite/protocol/schemas/schema_tables.py": "a table that is written by protocol.stubs",
}
FULL_FOLDERS: Final = {
    "kafkalite/broker/handlers": "one module for each API",
}
API_NAMES: Final = {
    "kafkalite/client/consumer/consumer.py": {"committed", "paused"},
    "kafkalite/client/consumer/sync.py": {"committed", "paused"},
}
"""Names that programs call, those of Java's clients."""

IRREGULAR: Final = frozenset(
    (
        "begun",
        "bought",
        "broken",
        "brought",
        "built",
        "caught",
        "chosen",
        "done",
        "drawn",
        "driven",
        "eaten",
        "fallen",
        "fed",
        "felt",
        "forgotten",
        "fought",
        "found",
        "given",
        "gone",
        "got",
        "grown",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "led",
        "left",
        "lent",
        "lit",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "said",
        "seen",
        "sent",
        "shaken",
        "shown",
        "slept",
        "sold",
        "sought",
        "spent",
        "spoken",
        "stolen",
        "stood",
        "struck",
        "sunk",
        "swept",
        "taken",
        "taught",
        "thought",
        "thrown",
        "told",
        "torn",
        "understood",
        "won",
        "woken",
        "worn",
        "written",
    )
)
VERBS: Final = frozenset(
    (
        "bleed",
        "breed",
        "embed",
        "exceed",
        "feed",
        "heed",
        "need",
        "proceed",
        "seed",
        "shed",
        "shred",
        "speed",
        "succeed",
        "weed",
    )
)
"""Verbs that end as participles do."""
_PHRASES: Final = re.compile(r"\b(see the module|as above)\b", re.IGNORECASE)

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """One shape in one place; `file` counts from the top of the repository."""

    rule: str
    file: str
    name: str


def is_participle(name: str) -> bool:
    """True if the name is one word that is a past participle, and no verb."""
    word = name.strip("_")
    return word in IRREGULAR or (word.endswith("ed") and word.isalpha() and word not in VERBS)


def find_in_module(file: str, source: str) -> Iterator[Finding]:
    """Yield what one product module has of these shapes."""
    tree = ast.parse(source)
    if len(source.splitlines()) > LINES_MAX and file not in LONG_MODULES:
        yield Finding("long module", file, "-")
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for phrase in _PHRASES.findall(" ".join(node.value.value.split())):
                yield Finding("docstring", file, phrase.lower().replace(" ", "-"))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _find_in_function(file, node)
        elif isinstance(node, ast.ClassDef):
            methods = sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)
            if methods > METHODS_MAX:
                yield Finding("large class", file, node.name)


def _find_in_function(file: str, node: Function) -> Iterator[Finding]:
    if (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES_MAX:
        yield Finding("long function", file, node.name)
    is_called_by_programs = node.name in API_NAMES.get(file, ())
    if is_participle(node.name) and not (is_called_by_programs or _is_property(node) or _returns_bool(node)):
        yield Finding("participle", file, node.name)


def _is_property(node: Function) -> bool:
    return any(re.search(r"property|\.setter$", ast.unparse(each)) for each in node.decorator_list)


def _returns_bool(node: Function) -> bool:
    return node.returns is not None and re.match(r"bool\b|TypeGuard|TypeIs", ast.unparse(node.returns)) is not None


def find_full_folders(files: Iterable[str]) -> Iterator[Finding]:
    """Yield folders with more modules than a reader can overlook; `__init__` does not count."""
    modules = Counter(str(Path(file).parent) for file in files if Path(file).name != "__init__.py")
    for folder, count in modules.items():
        if count > MODULES_MAX and folder not in FULL_FOLDERS:
            yield Finding("full folder", folder, "-")


def find_long_tests() -> Iterator[Finding]:
    """Yield unit tests that are longer than a module of the product may be."""
    for path in sorted((ROOT / "tests" / "unit").rglob("*.py")):
        if len(path.read_text().splitlines()) > LINES_MAX:
            yield Finding("long test", str(path.relative_to(ROOT)), "-")


def find_all() -> Counter[Finding]:
    """Return how often each finding is there: a name may be in several classes of a file."""
    files = {
        str(path.relative_to(ROOT)): path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))
    }
    found = Counter(each for file, path in files.items() for each in find_in_module(file, path.read_text()))
    found.update(find_full_folders(files))
    found.update(find_long_tests())
    return found


def read_exceptions() -> Counter[Finding]:
    """Return the listed findings: lines of rule, file and names, the fields parted by two blanks and more."""
    listed: Counter[Finding] = Counter()
    for line in EXCEPTIONS.read_text().splitlines():
        if line and not line.startswith("#"):
            rule, file, names = re.split(r"\s{2,}", line.strip(), maxsplit=2)
            listed.update(Finding(rule, file, name) for name in names.split())
    return listed


def as_text(findings: Counter[Finding]) -> str:
    """Return the lines of the list of exceptions, one for each rule and file."""
    by_place: dict[tuple[str, str], list[str]] = {}
    for each in sorted(findings.elements()):
        by_place.setdefault((each.rule, each.file), []).append(each.name)
    return "".join(f"{rule}  {file}  {' '.join(names)}\n" for (rule, file), names in by_place.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shrink", action="store_true", help="take out of the list what is there no more")
    found, listed = find_all(), read_exceptions()
    if parser.parse_args().shrink:
        comments = [line for line in EXCEPTIONS.read_text().splitlines(keepends=True) if line.startswith("#")]
        EXCEPTIONS.write_text("".join(comments) + as_text(found & listed))
    print(as_text(found - listed), end="")
    return 1 if found - listed else 0


if __name__ == "__main__":
    sys.exit(main())
