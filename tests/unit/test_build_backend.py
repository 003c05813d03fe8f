"""The backend has every hook of a build, and its archives do not depend on when and where they were built."""

from __future__ import annotations

import io
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from setuptools import build_meta

from kafkalite import build_backend
from kafkalite.build_archives import EPOCH

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
