"""Spark 4.0.0 with Spark's own Kafka connector, fetched by pip and Maven, and programs that run in it.

The connector's jars go with this release of Spark and no other, so it is kept apart from the project's own pyspark: in
`$XDG_CACHE_HOME/kafkalite/spark-4.0.0`, put before everything else on the path of the programs that need it. Its 400 MB are fetched by
`python -m tests.peers.spark_connector`, so that a run of all tests can do so beside them.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.conftest import foreign_program
from tests.peers.apache_kafka import cache_folder, fetch_artifacts
from tests.spark.sessions import driver_environment

SPARK: Final = "4.0.0"
PACKAGES: Final = (f"pyspark=={SPARK}", "py4j==0.10.9.9")
ARTIFACTS: Final = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
FETCH_TIMEOUT_S: Final = 900
_ROOT: Final = Path(__file__).parents[2]


def fetch() -> Path:
    """The folder with `python/` (pyspark) and `jars/`, filled at the first call; the test is reported as not run without Maven or Java."""
    foreign_program("java", "openjdk-17-jre-headless")
    maven = foreign_program("mvn", "maven")
    home = cache_folder().parent / f"spark-{SPARK}"
    home.mkdir(parents=True, exist_ok=True)
    complete = home / ".complete"
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes fetch once
        if not complete.exists():
            _fetch_into(home, maven)
            complete.touch()
    return home


def _spark(home: Path) -> Path:
    return home / "python" / "pyspark"


def environment() -> dict[str, str]:
    """The environment of a driver program of this Spark."""
    home = fetch()
    python_path = os.pathsep.join([str(home / "python"), str(_ROOT)])
    return driver_environment() | {"SPARK_HOME": str(_spark(home)), "PYTHONPATH": python_path}


def _fetch_into(home: Path, maven: str) -> None:
    shutil.rmtree(home / "python", ignore_errors=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
        "--no-deps",
    ]
    done = subprocess.run(
        [*pip, "--target", str(home / "python"), *PACKAGES], capture_output=True, text=True, timeout=FETCH_TIMEOUT_S
    )
    if done.returncode != 0:
        raise RuntimeError(f"pip could not fetch {PACKAGES}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    fetch_artifacts(home / "jars", maven, ARTIFACTS, "-DexcludeTransitive=true")


def jars() -> str:
    """The connector's jars as `spark.jars` wants them."""
    return ",".join(sorted(map(str, (fetch() / "jars").glob("*.jar"))))


def run_program(module: str, argument: Any, scratch: Path, timeout_s: float) -> Any:
    """What `python -m module` answers to `argument`, both as JSON: it finds them in files that its two arguments name.

    AssertionError with all that it printed when it fails.
    """
    question, answer, log = scratch / "question.json", scratch / "answer.json", scratch / "spark.log"
    question.write_text(json.dumps(argument))
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", module, str(question), str(answer)],
            cwd=scratch,
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )
    assert done.returncode == 0, f"{module} ended with status {done.returncode}:\n{log.read_text()[-6000:]}"
    return json.loads(answer.read_text())


if __name__ == "__main__":
    fetch()
