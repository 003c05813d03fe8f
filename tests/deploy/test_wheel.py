"""The wheel: what is in it, and a make-believe project that installs it and tests with its fixtures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkalite
from kafkalite import build_backend
from tests.compiled import compiled_folder
from zk.server_classes import find_server_classes

pytestmark = pytest.mark.timeout(600)  # an installation from the network is part of the first test

ROOT = Path(kafkalite.__file__).parents[1]
PACKAGES = ("kafkalite", "zk", "spark_jobs")
BUILT_FROM = (*PACKAGES, "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
"""What `pip wheel` needs of the repository."""

INSTALL_TIMEOUT_S = 300
MORE_TESTS = """

def test_the_cluster_is_a_cluster(kafkalite_cluster, kafkalite_admin):
    assert len(kafkalite_admin.describe_cluster().brokers) == len(kafkalite_cluster.broker_ids) == 2
"""


def users_tests() -> str:
    """What the README shows, and a little more."""
    chapter = (ROOT / "README.md").read_text().partition("## In your tests\n")[2]
    return chapter.partition("```python\n")[2].partition("```\n")[0] + MORE_TESTS


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """What a command prints; AssertionError with all of it when it fails."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because a build leaves files beside its source and would find old ones there."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(ROOT / name, source)
    compiled_folder()  # so that nothing has to be compiled again
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", folder, source, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment that has nothing but the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("project")
    run(sys.executable, "-m", "venv", "--without-pip", "environment", cwd=folder)
    # Nothing is compiled beforehand: most modules of what is installed are never imported here.
    pip = [sys.executable, "-m", "pip", "--python", python(folder), "install", "-q", "--no-compile"]
    run(*pip, f"{wheel}[testing]", cwd=folder)
    folder.joinpath("test_mine.py").write_text(users_tests())
    folder.joinpath("pytest.ini").write_text("[pytest]\nkafkalite_brokers = 2\n")
    return folder


def python(project: Path) -> Path:
    return project / "environment" / "bin" / "python"


@pytest.fixture
def users_environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Variables of a user who has never seen kafkalite: no cache of Maven, none of our variables."""
    ours = ("KAFKALITE", "PYTEST", "SERVER_JVMFLAGS", "ZOOKEEPER")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    yield kept | {"HOME": str(tmp_path)}


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    source = wheel.parent / "source"
    files = {
        str(path.relative_to(source))
        for name in PACKAGES
        for path in (source / name).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as content:
        names = {name for name in content.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    assert sorted(files - names) == []
    assert sorted(names - files) == sorted(map(build_backend.place_of, build_backend.EXTENSIONS))
    assert {name.partition("/")[0] for name in names} == set(PACKAGES)


def test_a_project_of_a_user(project: Path, users_environment: dict[str, str]) -> None:
    """ZooKeeper's classes are where the user says: an unpacked release, as far as the product can tell."""
    jars = find_server_classes()
    release = project / "apache-zookeeper"
    release.joinpath("lib").mkdir(parents=True, exist_ok=True)
    for jar in jars:
        release.joinpath("lib", jar.name).symlink_to(jar)
    printed = run(
        python(project),
        "-m",
        "pytest",
        "-q",
        cwd=project,
        environment=users_environment | {"ZOOKEEPER_HOME": str(release)},
    )
    assert "2 passed" in printed


def test_the_installed_command_works(project: Path, users_environment: dict[str, str]) -> None:
    command = project / "environment" / "bin" / "kafkalite"
    printed = run(command, "--version", cwd=project, environment=users_environment)
    assert printed == f"kafkalite, version {kafkalite.__version__}, compiled\n"
