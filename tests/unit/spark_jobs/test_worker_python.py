"""Workers of Spark that run another Python are told of in one line, before a query fails with Spark's own long one."""

from __future__ import annotations

import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.batch.endings import ending
from spark_jobs.batch.failures import Exit
from spark_jobs.worker_python import WorkerPythonError, check_python, check_worker_python


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python without any package."""
    folder = tmp_path_factory.mktemp("bare python")
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python3")


@dataclass(frozen=True)
class Context:
    """What `check_worker_python` reads of a SparkContext."""

    pythonExec: str
    _python_includes: list[str]

    def getConf(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True)
class Session:
    """What `check_worker_python` reads of a SparkSession."""

    sparkContext: Context


def session(program: str, files: list[str] | None = None) -> Any:
    return Session(Context(program, files or []))


def test_a_python_without_kafkalite_is_named_in_one_line(
    bare_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(WorkerPythonError) as told:
        check_worker_python(session(bare_python))
    assert str(told.value) == (
        f"Spark's workers run {bare_python}, which has no kafkalite: "
        f"set PYSPARK_PYTHON={sys.executable} before the session is made"
    )
    assert ending(told.value) == (Exit.USAGE, str(told.value))
    monkeypatch.setenv("PATH", str(Path(bare_python).parent))
    with pytest.raises(WorkerPythonError):
        check_python("python3")


def test_what_may_have_it_is_not_refused(bare_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_python(sys.executable)
    check_python("./environment/bin/python")  # on executors only
    check_worker_python(session(bare_python, ["kafkalite.zip"]))
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    check_python(str(program))
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    check_python(str(broken))


def test_spark_connect_has_no_context(bare_python: str) -> None:
    class Connected:
        @property
        def sparkContext(self) -> Any:
            raise RuntimeError("not in Spark Connect")

    check_worker_python(Connected())  # type: ignore[arg-type]
