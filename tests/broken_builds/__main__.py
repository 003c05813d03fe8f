"""`python -m tests.broken_builds [--only TEXT]`: which test of the fast part catches each bug, and after how many seconds.

Each bug is put into a copy of the source below a temporary folder. There the tests of `./deploy/test --fast` run until the first one fails,
which must pass without the bug: those of the bug's package first, then all. A row of the table tells the seconds until then, on the clock
and of processor time. The exit status is 1 when a bug is not caught.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.broken_builds.builds import BUILDS, ROOT, BrokenBuild

COPIED: Final = (
    "kafkalite",
    "zk",
    "spark_jobs",
    "tests",
    "deploy",
    "setup.cfg",
    "pyproject.toml",
    "README.md",
    ".ruff.toml",
)
FAST: Final = ("tests/unit", "tests/contract")
CHOSEN: Final = "not system and not containers and not spark and not timing"
TIMEOUT_S: Final = 3600


class Found(NamedTuple):
    """The test that failed first, None when all passed; the seconds until then, on the clock and of processor time."""

    test: str | None
    took_s: float
    processor_s: float


def copy_source(folder: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)


def put_in(build: BrokenBuild, source: Path) -> None:
    path = source / build.file
    path.write_text(path.read_text().replace(build.right, build.wrong))


def take_out(build: BrokenBuild, source: Path) -> None:
    (source / build.file).write_text((ROOT / build.file).read_text())


def nearest_tests(build: BrokenBuild) -> str:
    """The folder of tests/unit for the package that has the bug."""
    folder = Path(build.file).relative_to("kafkalite").parent
    while not (ROOT / "tests" / "unit" / folder).is_dir():
        folder = folder.parent
    return str(Path("tests", "unit", folder))


def first_failure(source: Path, tests: Sequence[str]) -> Found:
    """Runs until a test fails. Raises RuntimeError when pytest does not get so far as to run them."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider"]
    began_s, used_s = time.monotonic(), _processor_s()
    done = subprocess.run(
        [*command, "-m", CHOSEN, *tests], cwd=source, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if failed is None and done.returncode:
        raise RuntimeError(f"pytest ended with status {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return Found(failed[1] if failed else None, time.monotonic() - began_s, _processor_s() - used_s)


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def hunt(build: BrokenBuild, source: Path) -> Found:
    """Raises RuntimeError when the test that fails does so without the bug too."""
    put_in(build, source)
    found = first_failure(source, [nearest_tests(build)])
    if found.test is None:
        rest = first_failure(source, FAST)
        found = Found(rest.test, found.took_s + rest.took_s, found.processor_s + rest.processor_s)
    take_out(build, source)
    if found.test and first_failure(source, [found.test]).test:
        raise RuntimeError(f"{found.test} fails without a bug too")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only the bugs whose name has this text")
    only = parser.parse_args().only
    missed = 0
    print(f"{'clock':>7} {'CPU':>7}  bug: test", flush=True)
    with tempfile.TemporaryDirectory(prefix="kafkalite-broken-") as folder:
        source = Path(folder)
        copy_source(source)
        for build in BUILDS:
            if only not in build.name:
                continue
            found = hunt(build, source)
            missed += found.test is None
            print(
                f"{found.took_s:5.0f} s {found.processor_s:5.0f} s  {build.name}: {found.test or 'NOT CAUGHT'}",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
