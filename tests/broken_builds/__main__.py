"""`python -m tests.broken_builds [--only TEXT]`: which test of the fast part catches each bug, and after how many seconds.

Each bug is put into a copy of the source below a temporary folder; there the unit tests run until the first one fails, which must pass
without the bug. The exit status is 1 when a bug is not caught.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

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
FAST: Final = ("-m", "not system and not containers and not spark and not timing", "tests/unit", "tests/simulation")
TIMEOUT_S: Final = 600


def put_in(build: BrokenBuild, source: Path) -> None:
    path = source / build.file
    path.write_text(path.read_text().replace(build.right, build.wrong))


def take_out(build: BrokenBuild, source: Path) -> None:
    (source / build.file).write_text((ROOT / build.file).read_text())


def first_failure(source: Path, tests: Sequence[str] = FAST) -> str | None:
    """The test that fails first, None when all pass."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=TIMEOUT_S)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if failed is None and done.returncode:
        raise RuntimeError(f"pytest ended with status {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return failed[1] if failed else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only the bugs whose name has this text")
    only = parser.parse_args().only
    missed = 0
    for build in BUILDS:
        if only not in build.name:
            continue
        with tempfile.TemporaryDirectory(prefix="kafkalite-broken-") as folder:
            source = Path(folder)
            for name in COPIED:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, source / name)  # type: ignore[operator]
            put_in(build, source)
            began = time.monotonic()
            caught_by = first_failure(source)
            took_s = time.monotonic() - began
            take_out(build, source)
            if caught_by and first_failure(source, [caught_by]):
                raise RuntimeError(f"{caught_by} fails without a bug too")
        missed += caught_by is None
        print(f"{took_s:5.0f} s  {build.name}: {caught_by or 'NOT CAUGHT'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
