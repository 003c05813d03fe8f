"""The interpreter of Spark's Python workers in tests: `warm_python.py -m MODULE ARGUMENTS`, as Spark calls a Python.

`pyspark.daemon` forks a process for every worker, and each of them would import pandas, pyarrow, pyspark.sql and the data source again,
which takes two seconds where the query itself takes a tenth. Here the daemon imports them once, before it forks. Everything else is
run as any Python runs it.
`sessions.warm_python_program` makes the executable that Spark is given.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import sys

PRELOADED = (
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.types",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.types",
    "pyspark.sql.pandas.serializers",
    "spark_jobs",
    "spark_jobs.source",
    "spark_jobs.batch.records",
    "kafkalite.client",
    "kafkalite.client.record_columns",
)
"""What is not there (releases of pyspark differ) is left out: it is only slower."""


def preload() -> None:
    for name in PRELOADED:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    gc.freeze()  # the children leave these objects' pages as they are


def main() -> None:
    flag, module, *arguments = sys.argv[1:]
    if flag != "-m":
        raise SystemExit(f"Spark calls a Python with -m, not {flag}")
    sys.path[0] = os.getcwd()  # as with -m; until here it is the folder of this file
    if module == "pyspark.daemon":
        preload()
        if arguments:
            importlib.import_module(arguments[0])
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
