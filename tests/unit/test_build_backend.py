"""The backend has every hook of a build, and its archives do not depend on when and where they were built."""

from __future__ import annotations

import io
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import setuptools
from setuptools import build_meta

from kafkalite import build_backend
from kafkalite.build_archives import EPOCH
from kafkalite.protocol.record_batches import record_code

ROOT = Path(__file__).parents[2]
AT_S = 1_700_000_000


@pytest.fixture(autouse=True)
def source_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EPOCH, str(AT_S))


def test_it_is_named_by_pyproject_and_has_all_hooks_of_setuptools() -> None:
    settings = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())
    assert list(settings) == ["build-system"]
    assert settings["build-system"]["build-backend"] == build_backend.__name__
    hooks = {name for name in build_meta.__all__ if name.startswith(("build_", "get_requires_", "prepare_"))}
    assert sorted(build_backend.__all__) == sorted(hooks)


def test_the_compiled_module_is_declared_only_while_something_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(build_backend.PURE_VARIABLE, raising=False)
    plain, told = setuptools.setup, {}
    monkeypatch.setattr(setuptools, "setup", lambda **named: told.update(named))
    stand_in = setuptools.setup
    with build_backend._extension_declared():
        setuptools.setup()
    assert setuptools.setup is stand_in is not plain
    (extension,) = told["ext_modules"]
    assert [ROOT.joinpath(each).is_file() for each in extension.sources] == [True]
    assert extension.name == ".".join(Path(extension.sources[0]).with_suffix("").parts)
    assert extension.optional and extension.py_limited_api
    assert told["options"]["bdist_wheel"] == {"py_limited_api": "cp311"}


def test_the_variable_that_chooses_python_leaves_the_compiled_module_out() -> None:
    assert build_backend.PURE_VARIABLE == record_code.VARIABLE
    assert build_backend.describe_extension({build_backend.PURE_VARIABLE: "1"}) == {}


def test_a_wheel_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(folder: str, *arguments: object) -> str:
        with zipfile.ZipFile(Path(folder, "p.whl"), "w") as archive:
            archive.writestr(zipfile.ZipInfo("p.py", (2001, 1, 1, 0, 0, 0)), b"")
        return "p.whl"

    monkeypatch.setattr(build_meta, "build_wheel", build)
    assert build_backend.build_wheel(str(tmp_path)) == "p.whl"
    with zipfile.ZipFile(tmp_path / "p.whl") as archive:
        assert archive.getinfo("p.py").date_time == (2023, 11, 14, 22, 13, 20)


def test_a_source_archive_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(folder: str, *arguments: object) -> str:
        with tarfile.open(Path(folder, "p.tar.gz"), "w:gz") as archive:
            archive.addfile(tarfile.TarInfo("p.py"), io.BytesIO())
        return "p.tar.gz"

    monkeypatch.setattr(build_meta, "build_sdist", build)
    assert build_backend.build_sdist(str(tmp_path)) == "p.tar.gz"
    with tarfile.open(tmp_path / "p.tar.gz") as archive:
        assert archive.getmember("p.py").mtime == AT_S
