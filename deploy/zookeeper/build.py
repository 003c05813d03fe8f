"""Builds the wheel: Maven fetches the jars, each of which must have the hash of `jars.txt`.

They are kept in `$XDG_CACHE_HOME/kafkalite` (`~/.cache` without that variable).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deploy.zookeeper.jars import LIST, Jar, parse_jars, pom_text, wrong_jars, zookeeper_version
from deploy.zookeeper.wheel import wheel_bytes, wheel_name

_HERE: Final = Path(__file__).parent
_FETCH_TIMEOUT_S: Final = 600


class JarsMissingError(Exception):
    """Raised when the jars cannot be had; the message says what to do."""


def build_wheel(folder: Path) -> Path:
    """Write the wheel, and return its path. Raises JarsMissingError."""
    jars = parse_jars(LIST.read_text())
    held = fetch_jars(jars)
    contents = {jar.file_name: (held / jar.file_name).read_bytes() for jar in jars}
    licences = {path.name: path.read_bytes() for path in (_HERE / "licences").iterdir()}
    licences["LICENSE"] = (_HERE.parents[1] / "LICENSE").read_bytes()
    wheel = wheel_bytes(jars, contents, (_HERE / "module.py").read_bytes(), licences)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / wheel_name(jars)
    path.write_bytes(wheel)
    return path


def fetch_jars(jars: Sequence[Jar]) -> Path:
    """Return the folder with the jars, fetched where one is missing or is not what it should be. Raises JarsMissingError."""
    held = cache_folder(jars)
    if not wrong_jars(jars, held):
        return held
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissingError(
            "the jars are fetched by Maven, which is not installed; on Debian or Ubuntu: apt-get install maven"
        )
    held.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=held.parent) as scratch:
        draft = Path(scratch, "jars")
        Path(scratch, "pom.xml").write_text(pom_text(jars))
        command = [maven, "--quiet", "--batch-mode", "dependency:copy-dependencies", f"-DoutputDirectory={draft}"]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S)
        if done.returncode != 0:
            raise JarsMissingError(f"Maven could not fetch the jars:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        if wrong := wrong_jars(jars, draft):
            raise JarsMissingError(f"what Maven fetched is not what {LIST.name} names: {'; '.join(wrong)}")
        shutil.rmtree(held, ignore_errors=True)
        draft.rename(held)
    return held


def cache_folder(jars: Sequence[Jar]) -> Path:
    """Return the folder in which the jars are kept, whether they are there or not."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "kafkalite" / f"zookeeper-{zookeeper_version(jars)}"
