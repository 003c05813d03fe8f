"""Makes the format `kafkalite` known to Spark without a call: Spark looks for `DefaultSource` in modules whose names begin with
`pyspark_`. Give this file to a session by configuration, `spark.submit.pyFiles` or `--py-files`; `spark_jobs.DISCOVERY` is its path.
"""

from spark_jobs.source import KafkaliteSource as DefaultSource

__all__ = ["DefaultSource"]
