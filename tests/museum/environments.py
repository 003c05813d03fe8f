"""How the programs of the museum get what they need: each language's own package manager, into `$XDG_CACHE_HOME/kafkalite/museum`.

A folder belongs to a list of packages and the text of the programs, so it is made again when one changes, and shared by the variants
of a version. `prepare` makes those of all exhibits that are asked for; `Missing` says what a machine lacks.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.museum.contract import HERE, Exhibit

PROGRAMS: Final = HERE / "programs"
TIMEOUT_S: Final = 1800

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkalite.tests</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <packaging>{packaging}</packaging>
{body}
</project>
"""
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions><exclusion><groupId>com.sun.jmx</groupId><artifactId>*</artifactId></exclusion>"
    "<exclusion><groupId>com.sun.jdmk</groupId><artifactId>*</artifactId></exclusion>"
    "<exclusion><groupId>javax.jms</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)


class Missing(Exception):
    """A program of this machine that an environment needs; the message names it."""


def installed_program(name: str) -> str:
    """Its path. Raises Missing."""
    path = shutil.which(name)
    if path is None:
        raise Missing(f"{name} is not installed")
    return path


def run_quietly(command: Sequence[str | Path], folder: Path, settings: Mapping[str, str] | None = None) -> None:
    """Raises RuntimeError with the end of what it printed."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=os.environ | dict(settings or {}),
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command[:4]))} failed:\n{(done.stdout + done.stderr)[-1000:]}")


def _sources(exhibit: Exhibit) -> list[Path]:
    """The programs, with the one that starts first."""
    folder = PROGRAMS / exhibit.language
    if exhibit.language == "java":
        return [folder / f"{name}.java" for name in ("Main", *exhibit.programs)]
    return [folder / name for name in exhibit.programs]


def cache_folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "kafkalite" / "museum"


def folder_of(exhibit: Exhibit) -> Path:
    key = hashlib.sha256(repr((exhibit.packages, sys.version_info[:2])).encode())
    for path in _sources(exhibit):
        key.update(path.read_bytes())
    return cache_folder() / f"{exhibit.file}-{exhibit.version}-{key.hexdigest()[:12]}"


def prepare(wanted: Sequence[Exhibit]) -> dict[str, str]:
    """Make the environments that are not there yet; what went wrong, by the exhibit's name."""
    problems: dict[str, str] = {}
    for language in sorted({each.language for each in wanted}):
        problems |= _prepare(language, [each for each in wanted if each.language == language])
    return problems


def _prepare(language: str, wanted: Sequence[Exhibit]) -> dict[str, str]:
    problems: dict[str, str] = {}
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f".lock-{language}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel processes make each once
        absent = {folder_of(each): each for each in wanted if not (folder_of(each) / ".complete").exists()}
        for folder in absent:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        try:
            if language == "java":
                fetch_jars({folder: each.packages for folder, each in absent.items()})
        except (Missing, RuntimeError) as problem:
            problems = {each.name: str(problem) for each in absent.values()}
        for folder, each in absent.items():
            try:
                if each.name not in problems:
                    _MAKERS[language](each, folder)
                    (folder / ".complete").touch()
            except (Missing, RuntimeError) as problem:
                problems[each.name] = str(problem)
    by_folder = {folder_of(each): problems[each.name] for each in wanted if each.name in problems}
    return {each.name: by_folder[folder_of(each)] for each in wanted if folder_of(each) in by_folder}


def fetch_jars(wanted: Mapping[Path, Sequence[str]]) -> None:
    """Fill folders with artifacts (`group:name:version`) and what they need. Raises Missing, and RuntimeError.

    By one Maven, a module for each folder: versions of one artifact do not get along within a project.
    """
    if not wanted:
        return
    maven = installed_program("mvn")
    with tempfile.TemporaryDirectory() as scratch:
        modules = []
        for folder, packages in wanted.items():
            dependencies = "".join(_DEPENDENCY.format(*each.split(":")) for each in packages)
            module = Path(scratch, folder.name)
            module.mkdir()
            target = f"<properties><outputDirectory>{folder}</outputDirectory></properties>"
            body = f"  {target}\n  <dependencies>{dependencies}</dependencies>"
            (module / "pom.xml").write_text(_POM.format(name=folder.name, packaging="jar", body=body))
            modules.append(f"<module>{folder.name}</module>")
        body = f"  <modules>{''.join(modules)}</modules>"
        Path(scratch, "pom.xml").write_text(_POM.format(name="museum", packaging="pom", body=body))
        run_quietly([maven, "--quiet", "--batch-mode", "dependency:copy-dependencies"], Path(scratch))


def _make_java(exhibit: Exhibit, folder: Path) -> None:
    compiler = [installed_program("java"), "-XX:TieredStopAtLevel=1", "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    jars = os.pathsep.join(map(str, folder.glob("*.jar")))
    run_quietly([*compiler, "-nowarn", "-cp", jars, "-d", folder, *_sources(exhibit)], folder)


def _make_python(exhibit: Exhibit, folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    run_quietly([*pip, "--target", folder, *exhibit.packages], folder)


def _make_node(exhibit: Exhibit, folder: Path) -> None:
    quiet = ("--silent", "--no-audit", "--no-fund", "--no-package-lock")
    run_quietly([installed_program("npm"), "install", *quiet, "--prefix", folder, *exhibit.packages], folder)
    for path in _sources(exhibit):
        shutil.copy(path, folder)


def _make_go(exhibit: Exhibit, folder: Path) -> None:
    """`PATH=OTHER@VERSION` among the packages is a module that programs know by another path."""
    go = installed_program("go")
    for path in _sources(exhibit):
        shutil.copy(path, folder)
    (folder / "go.mod").write_text("module museum\n\ngo 1.22\n")
    for package in exhibit.packages:
        path, is_other, other = package.partition("=")
        if is_other:
            package = f"{path}@{other.partition('@')[2]}"
            run_quietly([go, "mod", "edit", f"-replace={path}={other}"], folder)
        run_quietly([go, "mod", "edit", f"-require={package}"], folder)
    run_quietly([go, "mod", "tidy"], folder, {"GOTOOLCHAIN": "local"})
    run_quietly([go, "build", "-o", "program", "."], folder, {"GOTOOLCHAIN": "local"})


def _make_rust(exhibit: Exhibit, folder: Path) -> None:
    """Every program is a crate's only file; packages are lines of its dependencies."""
    (folder / "src").mkdir()
    shutil.copy(_sources(exhibit)[0], folder / "src" / "main.rs")
    package = '[package]\nname = "program"\nversion = "1.0.0"\nedition = "2021"\n\n[dependencies]\n'
    (folder / "Cargo.toml").write_text(package + "\n".join(exhibit.packages) + "\n")
    run_quietly([installed_program("cargo"), "build", "--quiet"], folder)


_MAKERS: Final[Mapping[str, Callable[[Exhibit, Path], None]]] = {
    "go": _make_go,
    "java": _make_java,
    "node": _make_node,
    "python": _make_python,
    "rust": _make_rust,
}


def command_of(exhibit: Exhibit, bootstrap: str, zookeeper: str) -> tuple[list[str], dict[str, str]]:
    """The command line of an exhibit's program, and the environment that it needs."""
    folder = folder_of(exhibit)
    program = _sources(exhibit)[0]
    arguments = [bootstrap, zookeeper, *exhibit.arguments]
    settings = dict(os.environ)
    if exhibit.language == "java":
        flags = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}{os.pathsep}{folder}/*"]
        return ["java", *flags, "Main", *arguments, *exhibit.programs], settings
    if exhibit.language == "python":
        settings["PYTHONPATH"] = str(folder)
        settings["PATH"] = f"{folder}/bin{os.pathsep}{settings['PATH']}"
        return [sys.executable, "-W", "ignore", str(program), *arguments], settings
    if exhibit.language == "node":
        return ["node", str(folder / program.name), *arguments], settings
    built = {"go": "program", "rust": "target/debug/program"}[exhibit.language]
    return [str(folder / built), *arguments], settings
