"""Programs from the registries of their languages and from Debian's, each list of packages in a folder of its own, kept for the next time.

The folders are below `$XDG_CACHE_HOME/kafkalite/ecosystem`. `Missing` says what a machine lacks, or a registry.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.ecosystem.contract import Environment
from tests.museum.environments import Missing, cache_folder, fetch_jars, installed_program, run_quietly

JAVA: Final = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def kept(packages: tuple[str, ...], make: Callable[[Path], None]) -> Path:
    """The folder that `make` filled, by this process or another, now or before."""
    base = cache_folder().with_name("ecosystem")
    base.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(repr((packages, sys.version_info[:2])).encode()).hexdigest()[:12]
    name = "".join(each if each.isalnum() else "-" for each in packages[0])[:60]
    folder = base / f"{name}-{key}"
    with (base / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                make(folder)
            except RuntimeError as problem:  # no network, or a registry without it
                raise Missing(f"it cannot be had: {problem}") from None
            (folder / ".complete").touch()
    return folder


def python(*packages: str) -> Environment:
    """From PyPI, by pip; commands begin with the Python of the tests, which finds these packages before its own."""

    def make(folder: Path) -> None:
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
        run_quietly([*pip, "--target", folder, *packages], folder)

    folder = kept(packages, make)
    return Environment(folder, (sys.executable, "-W", "ignore"), {"PYTHONPATH": str(folder)})


def jars(*artifacts: str) -> Environment:
    """From Maven Central, by Maven (`group:name:version`, with all that they need); a main class or a source file follows."""
    installed_program("java")
    folder = kept(artifacts, lambda folder: fetch_jars({folder: artifacts}))
    return Environment(folder, (*JAVA, "-cp", f"{folder}/*"))


def node(*packages: str) -> Environment:
    """From the registry of npm; a copy of a program of ours finds them through a link, as `Scene.node_app` lays it."""

    def make(folder: Path) -> None:
        quiet = ("--silent", "--no-audit", "--no-fund", "--no-package-lock")
        run_quietly([installed_program("npm"), "install", *quiet, "--prefix", folder, *packages], folder)

    return Environment(kept(packages, make), (installed_program("node"),))


def go(command: str, *tags: str) -> Environment:
    """A Go module's command (`path@version`), built with these build tags; commands begin with it."""

    def make(folder: Path) -> None:
        where = {"GOBIN": str(folder), "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
        run_quietly([installed_program("go"), "install", "-tags", ",".join(tags), command], folder, where)

    folder = kept((command, *tags), make)
    return Environment(folder, (str(folder / command.partition("@")[0].rpartition("/")[2]),))


def go_program(source: Path, *modules: str) -> Environment:
    """A program of ours in Go, built with these modules (`path@version`); commands begin with it."""
    text = source.read_text()

    def make(folder: Path) -> None:
        where, go = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}, installed_program("go")
        (folder / "main.go").write_text(text)
        run_quietly([go, "mod", "init", "program"], folder, where)
        run_quietly([go, "mod", "edit", *(f"-require={module}" for module in modules)], folder, where)
        run_quietly([go, "mod", "tidy"], folder, where)
        run_quietly([go, "build", "-o", "program", "."], folder, where)

    folder = kept((source.stem, *modules, text), make)
    return Environment(folder, (str(folder / "program"),))


def debian(*packages: str) -> Environment:
    """From Debian, by apt, unpacked and not installed; commands begin with a path below the folder."""
    apt, unpack = installed_program("apt-get"), installed_program("dpkg-deb")

    def make(folder: Path) -> None:
        try:
            run_quietly([apt, "download", *packages], folder)
        except RuntimeError:  # lists that are old, or were never fetched
            run_quietly([apt, "update"], folder)
            run_quietly([apt, "download", *packages], folder)
        for package in folder.glob("*.deb"):
            run_quietly([unpack, "-x", package, folder], folder)
            package.unlink()

    folder = kept(packages, make)
    libraries = [str(path) for path in folder.glob("usr/lib/*-linux-gnu*")]
    return Environment(folder, (), {"LD_LIBRARY_PATH": ":".join(libraries)})


def none() -> Environment:
    """Nothing of its own; commands begin with the Python of the tests."""
    return Environment(Path(), (sys.executable,))


__all__ = ["Missing", "debian", "go", "go_program", "jars", "kept", "node", "none", "python"]
