"""What the product imports is what its installation requires: the tests' own environment has more and would hide a gap."""

from __future__ import annotations

import ast
import configparser
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("kafkalite", "zk", "spark_jobs", "deploy/examples/flights")
OWN_MODULES = ("kafkalite", "zk", "spark_jobs", "deploy")
EXTRAS = {
    "deploy/examples/flights": "demo",
    "kafkalite/broker": "server",
    "kafkalite/event_loop.py": "server",
    "kafkalite/console": "console",
    "kafkalite/security/bearer_tokens.py": "server",
    "kafkalite/client/audit_hashes.py": "spark",
    "kafkalite/client/consumer/range_reader.py": "spark",
    "kafkalite/client/consumer/record_columns.py": "spark",
    "kafkalite/protocol/schemas/kio_schemas.py": "test",
    "kafkalite/testing": "testing",
    "kafkalite/testing/workloads/group_workload.py": "test",
    "kafkalite/testing/workloads/workload.py": "test",
    "kafkalite/testing/workloads/clients.py": "test",
    "spark_jobs": "spark",
    **{
        f"spark_jobs/registry/{name}.py": "protobuf"
        for name in ("protobuf_compiler", "protobuf_encoding", "protobuf_types", "protobuf_values", "protoc_program")
    },
    "spark_jobs/registry/json_values.py": "json-schema",
}
"""Where an extra, or what a file of `deploy/requirements` lists, may be needed, and which."""

BUILD_BACKEND = "kafkalite/build_backend.py"
OF_A_BUILD = {"setuptools"}
"""What pip gets for a build, from pyproject.toml."""
OF_TYPE_CHECKERS = {"typing_extensions"}
"""What type checkers know without an installation: imported by `if TYPE_CHECKING` alone."""


def normalized(name: str) -> str:
    """As package indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements() -> dict[str, set[str]]:
    """The distributions that setup.cfg names, by extra; those of every installation under "". An extra may name other ones. Those of
    `deploy/requirements` by purpose.
    """
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    texts = {"": settings["options"]["install_requires"], **settings["options.extras_require"]}
    more = {extra: re.findall(r"^kafkalite\[([\w-]+)\]$", text, re.MULTILINE) for extra, text in texts.items()}
    for path in (ROOT / "deploy" / "requirements").glob("*.txt"):
        text = path.read_text()
        (named,) = re.findall(r"^# .*Extras of the package: ([a-z, ]*)", text, re.MULTILINE)
        more[path.stem] = [*re.split(r"[, ]+", named.strip()), *re.findall(r"^-r (\w+)\.txt$", text, re.MULTILINE)]
        texts[path.stem] = "\n".join(line for line in text.splitlines() if not line.startswith(("#", "-r")))
    direct = {
        extra: {normalized(re.split(r"[<>=!~;\[ ]", line)[0]) for line in text.split("\n") if line}
        for extra, text in texts.items()
    }

    def with_others(extra: str) -> set[str]:
        return direct[extra].union(*map(with_others, more.get(extra, [])))

    return {extra: with_others(extra) for extra in texts}


def statements(block: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Those of a block and of all blocks in it; expressions hold no import."""
    for each in block:
        yield each
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(each, name, ()))


def is_for_type_checkers(node: ast.AST) -> TypeGuard[ast.If]:
    """True for `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(path: Path) -> Iterator[str]:
    """The top-level names of foreign modules that a file imports, wherever in it."""
    all_statements = list(statements(ast.parse(path.read_text()).body))
    guarded = {each for node in all_statements if is_for_type_checkers(node) for each in statements(node.body)}
    for node in all_statements:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            top = name.partition(".")[0]
            if top in OF_TYPE_CHECKERS and node in guarded:
                continue
            if top not in sys.stdlib_module_names and top not in OWN_MODULES:
                yield top


@cache
def modules_of(name: str) -> frozenset[str]:
    """The top-level modules that an installed distribution provides. To look at all that are installed would take seconds."""
    try:
        files = distribution(name).files or ()
    except PackageNotFoundError:
        return frozenset({name})
    return frozenset(file.parts[0].partition(".")[0] for file in files)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_imported_distribution_is_required(package: str) -> None:
    required = requirements()
    missing = []
    for path in sorted((ROOT / package).rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        allowed = required[""] | OF_A_BUILD if place == BUILD_BACKEND else set(required[""])
        for where, extra in EXTRAS.items():
            if place == where or place.startswith(f"{where}/"):
                allowed |= required[extra]
        for module in imports(path):
            if not any(module in modules_of(name) for name in allowed):
                missing.append(f"{place} imports {module}")
    assert not missing, "\n".join(missing)
