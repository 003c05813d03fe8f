"""Delta Lake's and Iceberg's packages for the Spark 4.0.0 of `spark_connector`, fetched by Maven.

They go with a release of Spark and no other, and there are none yet for the one that the project's own tests use. Their 57 MB lie beside
that Spark; `python -m tests.peers.table_packages` fetches them beforehand.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Final

from tests.conftest import foreign_program
from tests.peers import spark_connector
from tests.peers.apache_kafka import fetch_artifacts

ARTIFACTS: Final = (
    ("io.delta", "delta-spark_2.13", "4.0.0"),
    ("io.delta", "delta-storage", "4.0.0"),
    ("org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", "1.11.0"),
)


def fetch() -> Path:
    """The folder with the jars, filled at the first call; the test is reported as not run without Maven or Java."""
    maven = foreign_program("mvn", "maven")
    home = spark_connector.fetch() / "table-jars"
    home.mkdir(exist_ok=True)
    complete = home / ".complete"
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes fetch once
        if not complete.exists():
            fetch_artifacts(home, maven, ARTIFACTS, "-DexcludeTransitive=true")
            complete.touch()
    return home


def jars() -> str:
    """The packages' jars as `spark.jars` wants them."""
    return ",".join(sorted(map(str, fetch().glob("*.jar"))))


if __name__ == "__main__":
    fetch()
