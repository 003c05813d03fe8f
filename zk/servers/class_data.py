"""ZooKeeper's classes as Java has parsed them: a server that finds them so takes a third less processor time to start.

Java writes such an archive (class data sharing, Java 13 and newer) when a process ends that was asked to, and goes on without one that does
not fit. It is made once for each Java and version of the jars, in `$XDG_CACHE_HOME/kafkalite/class-data` (`~/.cache` without that
variable): by the first server that is started with `ClassData`, at its clean end, which takes a second longer then.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from zk.servers.server_classes import find_java, find_server_classes

FLAGS: Final = "SERVER_JVMFLAGS"
_OWN_CHOICE: Final = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
"""Options with which a user decides about archives himself."""


def archive_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all archives."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkalite" / "class-data"


def archive_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the archive for this Java and these jars. Raises MissingRequirementError."""
    key = hashlib.sha256()
    for path in (Path(find_java(environment)).resolve(), *find_server_classes(environment)):
        found = path.stat()
        key.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
    return archive_folder(environment) / f"zookeeper-{key.hexdigest()[:16]}.jsa"


class ClassData:
    """The archive that servers are started with, or that the first one writes. Raises MissingRequirementError."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._archive = archive_path(environment)
        self._draft = self._archive.with_suffix(f".{os.getpid()}.draft")
        self._tried = self._archive.with_suffix(".tried")
        self._is_decided = any(each in environment.get(FLAGS, "") for each in _OWN_CHOICE)

    def jvm_options(self, *, writes: bool) -> list[str]:
        """Return the options to read the archive, or, if there is none, to write it, unless that was tried before."""
        if self._is_decided:
            return []
        if self._archive.exists():
            return [f"-XX:SharedArchiveFile={self._archive}"]
        if not writes or self._tried.exists():
            return []
        try:
            self._archive.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return []
        # A Java before 13 would not start.
        return ["-XX:+IgnoreUnrecognizedVMOptions", f"-XX:ArchiveClassesAtExit={self._draft}"]

    def keep_archive(self, *, cleanly: bool) -> None:
        """Publish the archive that a server has written, unless it was killed meanwhile."""
        if self._is_decided or self._archive.exists():
            return
        try:
            self._tried.touch()
            if cleanly and self._draft.exists():
                os.replace(self._draft, self._archive)
            self._draft.unlink(missing_ok=True)
        except OSError:  # without it servers start as they did before
            pass
