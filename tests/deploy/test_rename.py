"""`deploy/rename`: on a small tree, and on a copy of the whole project, in which nothing of the old name is left and which works."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalite
from deploy import renaming

ROOT = Path(__file__).parents[2]
NEW = "strand" + "log"
"""As long as the old name, so that no line becomes too long; in two parts, because a name that occurs already is refused."""


def tree_of(folder: Path, files: dict[str, str]) -> Path:
    """A folder that git tracks, with these files."""
    for name, text in {"setup.cfg": "[metadata]\nname = acorn\n", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {str(path): (folder / path).read_text() for path in renaming.tracked_files(folder)}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    files = {
        "acorn/__init__.py": 'NAME = "acorn"\n',
        "acorn/acorn_types.py": "class AcornThing:\n    prefix = 'ACORN_'\n",
        "units/acorn-broker.service": "ExecStart=/opt/acorn/bin/acorn\n",
        "other.txt": "nothing of it\n",
        "deploy/docs/pages/decisions/name.md": "Can it be called acorn?\n",
        ".gitignore": "ignored/\n",
        "ignored/acorn.txt": "acorn\n",
    }
    return tree_of(tmp_path, files)


def test_every_spelling_is_replaced_in_contents_and_paths(small: Path) -> None:
    assert renaming.main([NEW, "--tree", str(small)]) == 0
    assert contents(small) == {
        ".gitignore": "ignored/\n",
        "setup.cfg": f"[metadata]\nname = {NEW}\n",
        f"{NEW}/__init__.py": f'NAME = "{NEW}"\n',
        f"{NEW}/{NEW}_types.py": f'class {NEW.capitalize()}Thing:\n    prefix = "{NEW.upper()}_"\n',
        f"units/{NEW}-broker.service": f"ExecStart=/opt/{NEW}/bin/{NEW}\n",
        "other.txt": "nothing of it\n",
        "deploy/docs/pages/decisions/name.md": "Can it be called acorn?\n",
    }
    assert not (small / "acorn").exists() and (small / "ignored" / "acorn.txt").read_text() == "acorn\n"


def test_a_dry_run_says_what_would_change_and_changes_nothing(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(small)
    assert renaming.main([NEW, "--dry-run", "--tree", str(small)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert (
        told[0] == "4 files would be changed, 3 of all files get another path; occurrences: 5 acorn, 1 ACORN, 1 Acorn"
    )
    assert told[1].startswith("kept: deploy/docs/pages/decisions/name.md: ")
    assert contents(small) == before


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Strand", "'Strand': a name has 3 to 20 lower-case letters and digits"),
        ("strand-log", "lower-case letters and digits"),
        ("x", "3 to 20"),
        ("class", "is a word or a module of Python"),
        ("asyncio", "is a word or a module of Python"),
        ("acorn", "the name is 'acorn' already"),
        ("acornet", "'acornet' contains 'acorn'"),
        ("nothing", "'nothing' occurs already, in 1 files (other.txt …)"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(
    small: Path, name: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(small)
    assert renaming.main([name, "--tree", str(small)]) == 2
    assert told in capsys.readouterr().err
    assert contents(small) == before


def test_what_is_left_makes_the_command_fail(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (small / "other.txt").write_text("aCorn\n")
    assert renaming.main([NEW, "--tree", str(small)]) == 1
    assert "Error: acorn is still in other.txt" in capsys.readouterr().err


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert renaming.main([NEW, "--tree", str(tmp_path)]) == 2
    assert f"{tmp_path} is no checkout of the project" in capsys.readouterr().err


def test_the_whole_project_can_be_renamed(tmp_path: Path) -> None:
    files = renaming.tracked_files(ROOT)
    assert len(files) > 2000
    for path in files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    assert renaming.find_name(tmp_path) == kafkalite.NAME
    done = subprocess.run(
        [tmp_path / "deploy" / "rename", NEW], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(renaming.tracked_files(tmp_path)) == len(files)
    assert list(renaming.find_rest(tmp_path, kafkalite.NAME)) == []
    kept = [line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith("kept: ")]
    assert kept == [
        "deploy/docs/pages/decisions/name.md",
        "tests/unit/security/stores/key.jks",
        "tests/unit/security/stores/trust.jks",
    ], "each exception has its reason in `KEPT`"
    modules = ("broker.app", "client", "console.app", "legacy.topics.tool", "testing", "testing.pytest_plugin")
    program = f"import sys, spark_jobs.options, zk.paths, {', '.join(f'{NEW}.{each}' for each in modules)}\n"
    program += "print(sorted({each.partition('.')[0] for each in sys.modules} & {'kafkalite', NEW}))"
    assert run_in(tmp_path, "-c", f"NEW = {NEW!r}; {program}") == f"['{NEW}']\n"
    assert run_in(tmp_path, "-m", NEW, "--version").splitlines()[0] == f"{NEW}, version {kafkalite.__version__}"


def run_in(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
