"""The Python of Spark's workers, which Spark chooses by PYSPARK_PYTHON, else takes from PATH: it must have this package too.

A program that was started by the path of an environment's Python, without activating that environment, gets workers without it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES_OF_FILES = (".zip", ".egg", ".whl")
_PROBE = "import importlib.util as u, sys; sys.exit(0 if u.find_spec('spark_jobs') and u.find_spec('kafkalite') else 3)"
_PROBE_TIMEOUT_S = 30.0
_NOT_FOUND = 3


class WorkerPythonError(RuntimeError):
    """Spark's workers run a Python that does not have kafkalite."""


def check_worker_python(spark: SparkSession) -> None:
    """Raise WorkerPythonError when the workers' Python is one of this machine and lacks the package.

    Nothing is said where that cannot be known: a program that only executors have, packages that Spark sends along, Spark Connect.
    """
    try:
        context: Any = spark.sparkContext
    except Exception:  # a session of Spark Connect has none, and raises what its release has for that
        return
    files = [*context._python_includes, *context.getConf().get("spark.submit.pyFiles", "").split(",")]
    if any(each.endswith(_PACKAGES_OF_FILES) for each in files):
        return
    check_python(context.pythonExec)


def check_python(program: str) -> None:
    """Raise WorkerPythonError when `program` is a Python of this machine that lacks the package."""
    found = shutil.which(program)
    if found is None or found == sys.executable:
        return
    try:
        done = subprocess.run(
            [found, "-c", _PROBE], stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    if done.returncode == _NOT_FOUND:
        raise WorkerPythonError(
            f"Spark's workers run {found}, which has no kafkalite: set PYSPARK_PYTHON={sys.executable} before the session is made"
        )
