"""A Spark whose classes Java need not parse: with an archive of them, a driver takes half the processor time until its first query is done.

`python -m tests.spark.class_data` makes it for the installed pyspark: `spark-submit` runs this file, which does a little of what the tests
do, and the machine writes at its end which classes it had (class data sharing of Java 13 and later). An archive holds for one Java and
for jars in one place with their times: Spark is linked to where ZooKeeper's archive is (`tests.class_data`), for all checkouts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

TIMEOUT_S: Final = 300
JAVA_OPTIONS: Final = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""A JVM that lives for seconds pays for the second compiler, for a collector with threads and for a check of what the compiler made, and
gets nothing from them."""

_QUIET: Final = "-Xlog:disable"
"""Instead of warnings in a driver's output, when the archive cannot be used."""


@cache
def shared_home() -> Path | None:
    """The folder of the installed pyspark, at a place that outlives its environment; None before it was made."""
    found = _shared_home()
    return found if found.exists() else None


def _shared_home() -> Path:
    from tests.class_data import FOLDER

    jars = sorted((each.name, each.stat().st_size) for each in (_installed() / "jars").iterdir())
    return FOLDER / f"spark-{hashlib.sha256(repr(jars).encode()).hexdigest()[:16]}"


def _installed() -> Path:
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def _archive(home: Path) -> Path:
    """Where the archive for this Java and the Spark in that folder is, or would be."""
    from zk.servers.server_classes import find_java

    java = Path(find_java()).resolve()
    key = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:16]
    return home.with_name(f"{home.name}-{key}.jsa")


def driver_options(home: Path | None) -> str:
    """The options of a driver's JVM, with the archive for the Spark in that folder, if there is one."""
    if home is None or not (archive := _archive(home)).exists():
        return JAVA_OPTIONS
    return f"{JAVA_OPTIONS} -XX:SharedArchiveFile={archive} {_QUIET}"


def make(home: Path, environment: dict[str, str]) -> None:
    """Make the archive for the Spark in that folder, unless there is one; `environment` is that of its drivers."""
    from kafkalite.local.cluster import LocalCluster
    from tests.spark.sessions import SESSION

    archive = _archive(home)
    if archive.exists():
        return
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch, LocalCluster(brokers=1) as cluster:
        draft = Path(scratch, archive.name)
        settings = SESSION | {
            "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={draft} {_QUIET}",
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": scratch,
        }
        command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
        command += [word for name, text in settings.items() for word in ("--conf", f"{name}={text}")]
        done = subprocess.run(
            [*command, __file__, cluster.bootstrap_servers, scratch],
            env=environment | {"SPARK_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
        )
        if done.returncode != 0 or not draft.exists():
            raise RuntimeError(f"no archive of Spark's classes was made:\n{done.stdout[-4000:]}")
        draft.rename(archive)


def _share() -> Path:
    """Link the installed pyspark to its shared home; a copy where links are impossible. The jars keep their times."""
    home = _shared_home()
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=home.parent))
        shutil.copytree(_installed(), draft / home.name, copy_function=_link)
        (draft / home.name).rename(home)
        draft.rmdir()
    return home


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _use_many_classes(servers: str, scratch: str) -> None:
    """In the driver: files and topics are written, read, sorted, joined and streamed."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    import spark_jobs

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark_jobs.register(spark)
    topic: dict[str, Any] = {"kafka.bootstrap.servers": servers}
    rows = spark.range(40).select(
        F.col("id").cast("string").cast("binary").alias("key"), (F.col("id") % 3).alias("day")
    )
    values = rows.withColumn("value", F.concat(F.lit("x"), F.col("day").cast("string")).cast("binary"))
    values.write.format("kafkalite").mode("append").options(topic="sent", **topic).save()
    read = spark.read.format("kafkalite").options(subscribe="sent", **topic).load()
    read.withColumn("day", F.to_date("timestamp")).repartition(2, "partition").sortWithinPartitions(
        "offset"
    ).write.mode("overwrite").partitionBy("day").parquet(f"{scratch}/files")
    files = spark.read.parquet(f"{scratch}/files")
    files.groupBy("partition").agg(F.count("*"), F.max("offset"), F.max_by("value", "offset")).orderBy(
        "partition"
    ).collect()
    files.join(read.select("offset", "partition"), ["offset", "partition"]).filter("offset > 3").count()
    files.mapInArrow(lambda batches: batches, files.schema).write.mode("overwrite").parquet(f"{scratch}/mapped")
    stream = spark.readStream.format("kafkalite").options(subscribe="sent", **topic).load()
    writer = stream.writeStream.format("kafkalite").options(topic="copied", **topic)
    writer.option("checkpointLocation", f"{scratch}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _use_many_classes(*sys.argv[1:])
    else:
        from tests.spark.sessions import driver_environment

        make(_share(), driver_environment() | {"PYTHONPATH": os.getcwd()})
