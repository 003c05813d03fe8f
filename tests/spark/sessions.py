"""How every Spark of these tests is started: settings for small data and short lives, and the Python that its workers are forked from."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.spark import class_data, warm_python

SESSION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": class_data.driver_options(class_data.shared_home()),
    "spark.executor.extraJavaOptions": class_data.JAVA_OPTIONS,
    "spark.sql.session.timeZone": "UTC",
    # Driver and Python meet in time also on a busy machine.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.sql.shuffle.partitions": "2",
    # Compiling a query takes longer than running it over a few hundred rows.
    "spark.sql.codegen.wholeStage": "false",
}
"""Settings of every session of these tests."""


@cache
def warm_python_program() -> str:
    """What Spark takes for Python: this interpreter, but daemons and what plans streams come from a warm one (`warm_python`)."""
    folder = Path(tempfile.mkdtemp(prefix="kafkalite-warm-python-", suffix=f"-{os.getpid()}"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    python, warm = shlex.quote(sys.executable), shlex.quote(warm_python.__file__)
    program = folder / "python"
    program.write_text(
        '#!/bin/sh\ncase "$1 $2" in\n"-m pyspark.daemon" | "-m pyspark.sql.streaming."*) shift ;;\n'
        f'*) exec {python} "$@" ;;\nesac\n'
        f'exec {python} -IS {warm} client {shlex.quote(str(folder))} "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


def python_environment() -> dict[str, str]:
    """Variables with which a driver and all that it starts use the warm Python."""
    home = class_data.shared_home()
    return {
        **({} if home is None else {"SPARK_HOME": str(home)}),
        "PYSPARK_PYTHON": warm_python_program(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": class_data.JAVA_OPTIONS,
        "OPENBLAS_NUM_THREADS": "1",  # its threads would not outlive a fork
    }


def driver_environment() -> dict[str, str]:
    """The environment of a driver program: this one's, without what belongs to the Spark of this process."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return kept | python_environment()
