"""Java programs of the tests, compiled once for each Java: run from its source, each start of one would compile it again."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from zk.servers.server_classes import find_java

TIMEOUT_S: Final = 120


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/kafkalite/classes` (`~/.cache` without that variable)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkalite" / "classes"


def class_folder(source: Path, jars: Sequence[Path]) -> Path:
    """Where the classes of a program of one file are, or would be."""
    key = hashlib.sha256(source.read_bytes())
    java = Path(find_java()).resolve()
    key.update(f"{java} {java.stat().st_mtime_ns} {[each.name for each in jars]}".encode())
    return cache_folder() / f"{source.stem}-{key.hexdigest()[:16]}"


def compiled(source: Path, jars: Sequence[Path]) -> Path | None:
    """The folder with the classes of `source`, which uses those of `jars`; None without a Java compiler that takes it."""
    folder = class_folder(source, jars)
    if folder.exists():
        return folder
    compiler = Path(find_java()).resolve().with_name("javac")
    if not compiler.exists():
        return None
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the others wait for the first of them
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
                draft = Path(scratch, "classes")
                path = os.pathsep.join(map(str, jars))
                command = [compiler, "-proc:none", "-nowarn", "-cp", path, "-d", draft, source]
                if subprocess.run(command, timeout=TIMEOUT_S).returncode != 0:
                    return None
                draft.rename(folder)
    return folder
