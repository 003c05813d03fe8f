"""The wheel: what is in it, and a make-believe project that installs it and tests with its fixtures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkalite
from kafkalite.testing.archives import extract_all
from zk.servers.server_classes import find_server_classes

pytestmark = pytest.mark.timeout(600)  # an installation from the network is part of the first test

ROOT = Path(kafkalite.__file__).parents[1]
PACKAGES = ("kafkalite", "zk", "spark_jobs")
BUILT_FROM = (*PACKAGES, "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
"""What a build needs of the repository."""
BUILD = "import sys; from kafkalite import build_backend; getattr(build_backend, 'build_' + sys.argv[1])(sys.argv[2])"

INSTALL_TIMEOUT_S = 300
MORE_TESTS = """

def test_the_cluster_is_a_cluster(kafkalite_cluster, kafkalite_admin):
    assert len(kafkalite_admin.describe_cluster().brokers) == len(kafkalite_cluster.broker_ids) == 2
"""


def users_tests() -> str:
    """What the page on pytest shows first, and a little more."""
    page = (ROOT / "deploy" / "docs" / "pages" / "howto" / "pytest.md").read_text()
    return page.partition("```python\n")[2].partition("```\n")[0] + MORE_TESTS


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


def copy_source(place: Path) -> Path:
    """A build leaves files beside its source, and would find old ones there. Times and modes are those of now."""
    place.mkdir(parents=True)
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, place / name, ignore=ignored, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(ROOT / name, place / name)
    return place


class Builder:
    """Builds with a setuptools of its own, as pip would: that of this environment may be any."""

    def __init__(self, folder: Path) -> None:
        self._tools = folder
        folder.mkdir()
        run(sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--target", folder, "setuptools", cwd=folder)

    def build(self, kind: str, source: Path, umask: int = 0o022) -> Path:
        """An `sdist` or a `wheel` of the source."""
        target = source.parent / f"{kind}-of-{source.name}"
        target.mkdir()
        before = os.umask(umask)
        try:
            environment = os.environ | {"PYTHONPATH": str(self._tools)}
            run(sys.executable, "-c", BUILD, kind, target, cwd=source, environment=environment)
        finally:
            os.umask(before)
        (built,) = target.iterdir()
        return built


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("builder") / "tools")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_source(tmp_path_factory.mktemp("wheel") / "source")


@pytest.fixture(scope="module")
def source_archive(builder: Builder, source: Path) -> Path:
    return builder.build("sdist", source)


@pytest.fixture(scope="module")
def wheel(builder: Builder, source_archive: Path) -> Path:
    """Built from what the source archive has."""
    unpacked = source_archive.parent / "unpacked"
    with tarfile.open(source_archive) as content:
        extract_all(content, unpacked)
    (found,) = unpacked.iterdir()
    return builder.build("wheel", found, 0o077)


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


def test_builds_are_reproducible(
    builder: Builder, source: Path, source_archive: Path, wheel: Path, tmp_path: Path
) -> None:
    """From another place, at another time, for another user; and the source builds what its archive builds."""
    elsewhere = copy_source(tmp_path / "another" / "place" / "source")
    assert builder.build("sdist", elsewhere, 0o002).read_bytes() == source_archive.read_bytes()
    assert builder.build("wheel", source).read_bytes() == wheel.read_bytes()


def test_every_file_of_the_packages_is_in_the_wheel(source: Path, wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    files = {
        str(path.relative_to(source))
        for name in PACKAGES
        for path in (source / name).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as content:
        names = {name for name in content.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    assert sorted(names) == sorted(files)
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
    assert printed == f"kafkalite, version {kafkalite.__version__}\n"
