"""The rename of the project: `deploy/rename NAME`; with --dry-run it says what would change and changes nothing.

The name stands in three spellings, as in `name`, `NAME` and `Name`, in the contents and the paths of the files that git tracks. All three
are replaced everywhere, so there is nothing to forget; `KEPT` has the exceptions with their reasons. A new name that occurs already is
refused: places that had it before could not be told from renamed ones.
"""

from __future__ import annotations

import argparse
import keyword
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

KEPT: Final[Mapping[str, str]] = {
    "deploy/docs/pages/decisions/name.md": "the decision is about the old name: a person writes down what was decided",
    "*.jks": "stores of keys in Java's format, with checksums over the names in them: only tests read them",
}
"""Files whose contents stay, by pattern, with the reason."""

_LEFT_TO_A_PERSON: Final = (
    "deploy/docs/pages/decisions/name.md: what was decided, and project_urls in setup.cfg",
    "pytest tests/wire/test_cli_goldens.py --rewrite-goldens, and the other goldens: columns have other widths",
    "`deploy/test`, and a look at lines that have become too long (`ruff check --select E501`)",
    "names outside of this folder: repository, registries of packages and images, machines that run a release",
)


class RenameError(Exception):
    """Raised for a new name that cannot be used, or a tree that cannot be renamed. The message has the remedy."""


@dataclass(frozen=True, slots=True)
class Spellings:
    """What is replaced by what: in lower case, in capitals, and as the beginning of a class's name."""

    old: str
    new: str

    def pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple((spell(self.old), spell(self.new)) for spell in (str.lower, str.upper, str.capitalize))

    def applied(self, text: str) -> str:
        for old, new in self.pairs():
            text = text.replace(old, new)
        return text

    def applied_to_bytes(self, data: bytes) -> bytes:
        for old, new in self.pairs():
            data = data.replace(old.encode(), new.encode())
        return data


@dataclass(slots=True)
class Plan:
    """New contents and new paths by old path, how often each spelling occurs, and the files that keep theirs."""

    contents: dict[Path, bytes] = field(default_factory=dict)
    moves: dict[Path, Path] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    kept: dict[Path, str] = field(default_factory=dict)


def check_name(new: str, old: str) -> None:
    """Raise RenameError for a name that is none for a package, a command and a class alike."""
    if not re.fullmatch(r"[a-z][a-z0-9]{2,19}", new):
        raise RenameError(
            f"{new!r}: a name has 3 to 20 lower-case letters and digits, because modules and variables have it"
        )
    if keyword.iskeyword(new) or new in sys.stdlib_module_names:
        raise RenameError(f"{new!r} is a word or a module of Python; choose another one")
    if new == old:
        raise RenameError(f"the name is {old!r} already")
    if old in new:
        raise RenameError(f"{new!r} contains {old!r}, so nobody could see what was renamed; choose another one")


def find_name(tree: Path) -> str:
    """Return the present name, as `setup.cfg` has it."""
    try:
        found = re.search(r"(?m)^name = ([a-z0-9]+)$", (tree / "setup.cfg").read_text())
    except OSError as problem:
        raise RenameError(f"{tree} is no checkout of the project: {problem}") from None
    if found is None:
        raise RenameError(f"{tree / 'setup.cfg'} has no line 'name = …'")
    return found[1]


def tracked_files(tree: Path) -> list[Path]:
    """Return the paths of the files that git tracks, and of new ones that it does not ignore, relative to the tree."""
    command = ["git", "-C", str(tree), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise RenameError(f"git does not list the files of {tree}: {done.stderr.decode().strip()}")
    return sorted(
        {Path(each.decode()) for each in done.stdout.split(b"\0") if each and (tree / each.decode()).is_file()}
    )


def plan_rename(tree: Path, files: list[Path], spellings: Spellings) -> Plan:
    """Return what changes. Raises RenameError where the new name occurs already, with the places."""
    plan, taken = Plan(), []
    new = re.compile(rb"(?i)(?<![a-z])" + spellings.new.encode() + rb"(?![a-z])")
    for path in files:
        if (moved := Path(spellings.applied(str(path)))) != path:
            plan.moves[path] = moved
        data = (tree / path).read_bytes()
        if new.search(data):
            taken.append(str(path))
        plan.counts.update({old: data.count(old.encode()) for old, _ in spellings.pairs()})
        if (changed := spellings.applied_to_bytes(data)) != data:
            if reason := _reason_to_keep(path):
                plan.kept[path] = reason
            else:
                plan.contents[path] = changed
    if taken:
        raise RenameError(
            f"{spellings.new!r} occurs already, in {len(taken)} files ({', '.join(taken[:5])} …); choose another one"
        )
    if clash := sorted(str(each) for each in plan.moves.values() if (tree / each).exists()):
        raise RenameError(f"these files exist already: {', '.join(clash[:5])}")
    return plan


def _reason_to_keep(path: Path) -> str | None:
    return next((reason for pattern, reason in KEPT.items() if fnmatch(str(path), pattern)), None)


def carry_out(tree: Path, plan: Plan) -> None:
    """Write the contents and move the files; folders that become empty go."""
    for path, data in plan.contents.items():
        (tree / path).write_bytes(data)
    for path, moved in plan.moves.items():
        (tree / moved).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).rename(tree / moved)
    for folder in sorted({parent for path in plan.moves for parent in path.parents}, reverse=True):
        _remove_if_left(tree / folder)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder that has nothing but Python's compiled files."""
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def put_in_order(tree: Path) -> str:
    """Sort imports and format lines, which the new name's length and first letter change. Returns what was done."""
    ruff = shutil.which("ruff", path=f"{tree}/.venv/bin") or shutil.which("ruff")
    if ruff is None:
        return "ruff is not here: sort imports and format with `ruff check --select I --fix .` and `ruff format .`"
    for arguments in (["check", "--quiet", "--select", "I", "--fix", "."], ["format", "--quiet", "."]):
        subprocess.run([ruff, *arguments], cwd=tree, check=True)
    return "imports are sorted and files formatted by ruff"


def find_rest(tree: Path, name: str) -> Iterator[Path]:
    """Yield the files, other than those of `KEPT`, that still have the name, in whatever spelling, in contents or path."""
    spelled = re.compile(re.escape(name.encode()), re.IGNORECASE)
    for path in tracked_files(tree):
        if spelled.search(str(path).encode()) or (
            spelled.search((tree / path).read_bytes()) and not _reason_to_keep(path)
        ):
            yield path


def report(plan: Plan, *, is_done: bool) -> Iterator[str]:
    verb = "changed" if is_done else "would be changed"
    counts = ", ".join(f"{count} {spelling}" for spelling, count in plan.counts.items())
    yield f"{len(plan.contents)} files {verb}, {len(plan.moves)} of all files get another path; occurrences: {counts}"
    yield from (f"kept: {path}: {reason}" for path, reason in plan.kept.items())


def main(arguments: list[str] | None = None) -> int:
    """Rename, or say what would be renamed. Exit codes: 0 done, 1 something is left, 2 refused."""
    parser = argparse.ArgumentParser(prog="deploy/rename", description="Give the project another name everywhere.")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--dry-run", action="store_true", help="only say what would change")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help="a checkout; by default this one")
    given = parser.parse_args(arguments)
    try:
        old = find_name(given.tree)
        check_name(given.name, old)
        plan = plan_rename(given.tree, tracked_files(given.tree), Spellings(old, given.name))
    except RenameError as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    if not given.dry_run:
        carry_out(given.tree, plan)
        print(put_in_order(given.tree))
    print("\n".join(report(plan, is_done=not given.dry_run)))
    if given.dry_run:
        return 0
    rest = [str(path) for path in find_rest(given.tree, old)]
    print("\n".join(f"left to a person: {each}" for each in _LEFT_TO_A_PERSON))
    if rest:
        print(f"Error: {old} is still in {', '.join(rest)}", file=sys.stderr)
    return 1 if rest else 0


if __name__ == "__main__":
    sys.exit(main())
