"""The Python that Spark forks its workers from, in tests: `warm_python.py WORKER_MODULE` is `python -m pyspark.daemon WORKER_MODULE`.

`pyspark.daemon` forks a process for every worker, and each of them would import pandas, pyarrow, pyspark.sql and the data source again,
which takes two seconds where the query itself takes a tenth. Here the daemon imports them once, before it forks.
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
    "kafkalite.client.consumer.record_columns",
)
"""What pyspark does not have (its releases differ) is left out: it is only slower."""


def preload() -> None:
    for name in PRELOADED:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    gc.freeze()  # the children leave these objects' pages as they are


def main() -> None:
    sys.path[0] = os.getcwd()  # as with -m; until here it is the folder of this file
    preload()
    for worker_module in sys.argv[1:]:
        importlib.import_module(worker_module)
    sys.argv[0] = "pyspark.daemon"
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
