"""The wheel: what is in it, and who installs it: a make-believe project that tests with its fixtures, and each extra by itself."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

import kafkalite
from deploy.zookeeper.build import build_wheel, cache_folder
from deploy.zookeeper.jars import LIST, parse_jars, wrong_jars
from kafkalite.protocol.record_batches.record_code import VARIABLE
from kafkalite.testing.archives import extract_all
from tests.conftest import foreign_program, not_run

pytestmark = pytest.mark.timeout(1800)  # an installation from the network is part of the first test

ROOT = Path(kafkalite.__file__).parents[1]
PACKAGES = ("kafkalite", "zk", "spark_jobs")
BUILT_FROM = (*PACKAGES, "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
"""What a build needs of the repository."""
COMPILED = "kafkalite/protocol/record_batches/_records.abi3.so"
BUILD = "import sys; from kafkalite import build_backend; getattr(build_backend, 'build_' + sys.argv[1])(sys.argv[2])"

INSTALL_TIMEOUT_S = 900
NOT_OF_CORE = {
    *(
        "uvloop",
        "h11",
        "pyjwt",
        "starlette",
        "uvicorn",
        "kafkalite-zookeeper",
        "pyspark",
        "docker",
        "pytest",
        "testcontainers",
    ),
    *("mypy", "ruff", "sphinx"),
}
INSTALLED = "from importlib.metadata import distributions; print(*(each.name.lower() for each in distributions()))"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
SPARKS = ("spark", "protobuf", "json-schema")
SPARK_PACKAGES = ("pyspark", "py4j", "pyarrow", "numpy", "pandas", "grpcio-tools", "grpcio")
USES = {
    "server": "import uvloop, kafkalite.broker.process, kafkalite.local.cluster as c; c.LocalCluster(); print('works')",
    "console": "import kafkalite.console.app, kafkalite.console.serving; print('works')",
    "testing": "import pytest, kafkalite.testing as t; [getattr(t, each) for each in t.__all__]; print('works')",
    "spark": "import pyspark.sql, spark_jobs.source, spark_jobs.commands; print('works')",
    "protobuf": "import google.protobuf, grpc_tools, spark_jobs.registry.protobuf_types; print('works')",
    "json-schema": "import jsonschema_rs, spark_jobs.registry.json_values; print('works')",
}
"""What each extra is for, as a program; `gssapi` is compiled where it is installed, and `zookeeper` has a test of its own."""
WITH_PAGE = ("broker", "-X", "zookeeper.connect=127.0.0.1:1", "-X", "kafkalite.http.listener=127.0.0.1:0")
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
            ignored = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(ROOT / name, place / name, ignore=ignored, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(ROOT / name, place / name)
    return place


class Builder:
    """Builds with a setuptools of its own, as pip would: that of this environment may be any."""

    def __init__(self, folder: Path) -> None:
        self.tools = folder
        folder.mkdir()
        tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
        run(sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--target", folder, *tools, cwd=folder)

    def build(self, kind: str, source: Path, umask: int = 0o022, *, is_pure: bool = False) -> Path:
        """An `sdist` or a `wheel` of the source."""
        target = source.parent / f"{'pure-' if is_pure else ''}{kind}-of-{source.name}"
        target.mkdir()
        before = os.umask(umask)
        try:
            environment = os.environ | {"PYTHONPATH": str(self.tools), VARIABLE: "1" if is_pure else ""}
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
    foreign_program("cc", "gcc")
    unpacked = source_archive.parent / "unpacked"
    with tarfile.open(source_archive) as content:
        extract_all(content, unpacked)
    (found,) = unpacked.iterdir()
    return builder.build("wheel", found, 0o077)


def python(project: Path) -> Path:
    return project / "environment" / "bin" / "python"


def make_environment(folder: Path, *requirements: str | Path, base: str = sys.executable) -> Path:
    """Return a folder with an environment that has nothing but these and what they ask for; pip too, where it is of another Python.

    Nothing is compiled beforehand: most modules of what is installed are never imported here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    without_pip = ["--without-pip"] if base == sys.executable else []  # our pip may be too old for that Python
    run(base, "-m", "venv", *without_pip, "environment", cwd=folder)
    if requirements:
        install(folder, *requirements)
    return folder


def install(project: Path, *requirements: str | Path) -> None:
    own = python(project)
    pip = [own, "-m", "pip"] if own.with_name("pip").exists() else [sys.executable, "-m", "pip", "--python", own]
    run(*pip, "install", "-q", "--no-compile", *requirements, cwd=project)


@pytest.fixture(scope="module")
def zookeeper_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jars of ZooKeeper's server. Maven runs where they are not in the cache yet."""
    jars = parse_jars(LIST.read_text())
    if wrong_jars(jars, cache_folder(jars)):
        foreign_program("mvn", "maven")
    return build_wheel(tmp_path_factory.mktemp("zookeeper"))


@pytest.fixture(scope="module")
def project(wheel: Path, zookeeper_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a user's tests, and an environment with what they need."""
    folder = make_environment(tmp_path_factory.mktemp("project"), f"{wheel}[testing,zookeeper]", zookeeper_wheel)
    folder.joinpath("test_mine.py").write_text(users_tests())
    folder.joinpath("pytest.ini").write_text("[pytest]\nkafkalite_brokers = 2\n")
    return folder


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment that has the wheel without an extra."""
    return make_environment(tmp_path_factory.mktemp("core"), wheel)


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
    assert "-cp311-abi3-linux_" in wheel.name
    files = {
        str(path.relative_to(source))
        for name in PACKAGES
        for path in (source / name).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    names = names_in(wheel)
    assert sorted(names) == sorted({*files, COMPILED})
    assert {name.partition("/")[0] for name in names} == set(PACKAGES)


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as content:
        return {name for name in content.namelist() if not name.partition("/")[0].endswith(".dist-info")}


def test_the_wheel_without_compiled_code_is_for_all_machines(builder: Builder, source: Path, wheel: Path) -> None:
    pure = builder.build("wheel", source, is_pure=True)
    assert pure.name.endswith("-py3-none-any.whl")
    assert names_in(pure) == names_in(wheel) - {COMPILED}


def test_an_installation_without_a_compiler_is_one_without_compiled_code(
    builder: Builder, source: Path, wheel: Path
) -> None:
    """As pip builds it: it goes on, and says so."""
    place = copy_source(source.parent / "without" / "source")
    environment = os.environ | {"CC": "/nowhere/cc", "PYTHONPATH": str(builder.tools), VARIABLE: ""}
    printed = run(sys.executable, "-c", BUILD, "wheel", place.parent, cwd=place, environment=environment)
    assert "/nowhere/cc" in printed
    (built,) = place.parent.glob("*.whl")
    assert names_in(built) == names_in(wheel) - {COMPILED}


def test_a_project_of_a_user(project: Path, users_environment: dict[str, str]) -> None:
    """Nothing is said about ZooKeeper's classes: the extra `zookeeper` has brought them."""
    printed = run(python(project), "-m", "pytest", "-q", cwd=project, environment=users_environment)
    assert "2 passed" in printed


def test_an_installation_reads_records_with_compiled_code(project: Path, users_environment: dict[str, str]) -> None:
    program = "from kafkalite.protocol.record_batches.record_code import IS_COMPILED; print(IS_COMPILED)"
    assert run(python(project), "-c", program, cwd=project, environment=users_environment) == "True\n"


def test_the_installed_command_works(project: Path, users_environment: dict[str, str]) -> None:
    command = project / "environment" / "bin" / "kafkalite"
    printed = run(command, "--version", cwd=project, environment=users_environment)
    assert printed == f"kafkalite, version {kafkalite.__version__}\nrecords by compiled code\n"


def test_the_core_has_no_package_of_an_extra(core: Path, users_environment: dict[str, str]) -> None:
    """The client works, and what needs more says in one line how to get it."""
    named = "import sys, kafkalite.client as c; [getattr(c, each) for each in c.__all__]; import kafkalite.legacy.topics.tool"
    run(python(core), "-c", named, cwd=core, environment=users_environment)
    found = run(python(core), "-c", INSTALLED, cwd=core, environment=users_environment).split()
    assert "kazoo" in found and not set(found) & NOT_OF_CORE
    assert not [
        path.name for path in (core / "environment/bin").iterdir() if path.name.startswith(("kafka-", "zookeeper-"))
    ]
    for command, extra in {WITH_PAGE: "server", ("console",): "console"}.items():
        done = subprocess.run(
            [core / "environment/bin/kafkalite", *command],
            capture_output=True,
            text=True,
            env=users_environment,
            timeout=INSTALL_TIMEOUT_S,
        )
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert done.stderr.endswith(f"pip install 'kafkalite[{extra}]'\n")


def test_one_command_from_an_empty_environment(project: Path, core: Path, users_environment: dict[str, str]) -> None:
    """`cluster up` of the extra `zookeeper` finds all that it needs but for Java; the core alone is a client of that cluster."""
    foreign_program("java", "openjdk-17-jre-headless")
    with cluster_up(project, users_environment) as servers:
        produce_and_consume(core, users_environment, servers)


@pytest.mark.parametrize("extra", USES)
def test_each_extra_by_itself(
    extra: str, long: bool, wheel: Path, tmp_path: Path, users_environment: dict[str, str]
) -> None:
    """What an extra is for works without the others. Spark's packages are those of the tests, because they are half a gigabyte."""
    if not long:
        pytest.skip("environments are made for each: with --long")
    folder = make_environment(tmp_path / extra)
    if extra in SPARKS:
        lend_packages(folder, SPARK_PACKAGES)
    install(folder, f"{wheel}[{extra}]")
    printed = run(python(folder), "-c", USES[extra], cwd=folder, environment=users_environment)
    assert "works" in printed, printed


@pytest.mark.parametrize("version", VERSIONS)
def test_each_python(
    version: str, long: bool, wheel: Path, zookeeper_wheel: Path, tmp_path: Path, users_environment: dict[str, str]
) -> None:
    """The core alone is a client of a cluster of all extras, whichever Python it is."""
    if not long:
        pytest.skip("environments are made for each: with --long")
    foreign_program("java", "openjdk-17-jre-headless")
    base = find_python(version)
    everything = f"{wheel}[zookeeper,console,testing]"
    core = make_environment(tmp_path / f"core-{version}", wheel, base=base)
    project = make_environment(tmp_path / f"all-{version}", everything, zookeeper_wheel, base=base)
    with cluster_up(project, users_environment) as servers:
        produce_and_consume(core, users_environment, servers)
        produce_and_consume(project, users_environment, servers)
        open_console(project, users_environment, servers)
    project.joinpath("test_mine.py").write_text(users_tests())
    project.joinpath("pytest.ini").write_text("[pytest]\nkafkalite_brokers = 2\n")
    assert "2 passed" in run(python(project), "-m", "pytest", "-q", cwd=project, environment=users_environment)


def open_console(project: Path, environment: dict[str, str], servers: str) -> None:
    """Start the console of an environment, and get its page."""
    process = subprocess.Popen(
        [project / "environment/bin/kafkalite", "console", "--port", "0", "-b", servers],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        with urllib.request.urlopen(process.stdout.readline().strip(), timeout=INSTALL_TIMEOUT_S) as page:
            assert page.status == 200 and b"kafkalite" in page.read()
    finally:
        process.terminate()
        process.communicate(timeout=INSTALL_TIMEOUT_S)
    assert process.returncode == 0


def find_python(version: str) -> str:
    """Return an interpreter of that version: of the system, or of pyenv. Without one the test is not run."""
    roots = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    candidates = [shutil.which(f"python{version}"), *map(str, sorted(roots.glob(f"{version}.*/bin/python{version}")))]
    for each in filter(None, candidates):
        if subprocess.run([each, "-c", "import venv"], capture_output=True, timeout=INSTALL_TIMEOUT_S).returncode == 0:
            return each
    not_run(f"there is no Python {version} on this machine")


def lend_packages(project: Path, names: Iterable[str]) -> None:
    """Let an environment see some of the packages of this one, as if they were installed there."""
    lent = project / "lent"
    lent.mkdir()
    for name in names:
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            lent.joinpath(top).symlink_to(Path(str(found.locate_file(top))))
    (site_packages,) = (project / "environment").glob("lib/python3.*/site-packages")
    site_packages.joinpath("lent.pth").write_text(f"{lent}\n")


@contextlib.contextmanager
def cluster_up(project: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run `kafkalite cluster up` with one broker, and yield the address of that."""
    process = subprocess.Popen(
        [project / "environment/bin/kafkalite", "cluster", "up", "--brokers", "1", "-o", "json"],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()  # at the end of a command that fails, too
        assert line, process.communicate()[1]
        yield json.loads(line)["bootstrap_servers"]
    finally:
        process.terminate()
        _, told = process.communicate(timeout=INSTALL_TIMEOUT_S)
    assert process.returncode == 0, told


def produce_and_consume(project: Path, environment: dict[str, str], servers: str) -> None:
    """Write and read a record by the commands of an environment."""
    command = project / "environment/bin/kafkalite"
    with_servers = environment | {"KAFKALITE_BOOTSTRAP_SERVERS": servers}
    topic = f"greetings-{project.name}"
    run(command, "topic", "create", topic, "--wait", cwd=project, environment=with_servers)
    subprocess.run(
        [command, "produce", topic], input="hello\n", text=True, env=with_servers, check=True, timeout=INSTALL_TIMEOUT_S
    )
    printed = run(command, "consume", topic, "--exit-at-end", cwd=project, environment=with_servers)
    assert printed.startswith("hello\n")  # what stderr has comes behind it
