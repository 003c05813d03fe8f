"""The end of the demo: the nightly batch of one day on Spark, as `kafkalite spark run` does it, and its output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kafkalite.cli.output import Exit, fail, note, write_line, write_rows

DAY = "2013-06-15"
_RESULT = "delays"
_TRANSFORM = "spark_jobs.examples.flight_delays:mean_delays"
_SCHEMA = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, "
    "arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, distance int, "
    "hour int, minute int, time_hour timestamp"
)
_TIMEOUT_S = 600.0
_SHOWN_ROWS = 8


def night_arguments(bootstrap_servers: str, zookeeper: str, topic: str, output: Path) -> list[str]:
    """Return the arguments of `kafkalite spark run`."""
    return [
        *("--date", DAY, "--topic", topic, "--output", str(output)),
        *("-b", bootstrap_servers, "-z", zookeeper, "--master", "local[2]"),
        *("--conf", "spark.sql.shuffle.partitions=2"),
        *("--key-format", "string", "--value-format", "msgpack", "--value-schema", _SCHEMA),
        *("--transform", _TRANSFORM, "--name", _RESULT, "-o", "json"),
    ]


def run_night(bootstrap_servers: str, zookeeper: str, topic: str, output: Path, flights_of_day: int) -> None:
    """Run the nightly batch and print its results. End the demo when the archive does not have the day's flights."""
    write_line(f"the nightly batch of {DAY} on Spark: archive, mean delays, audit")
    arguments = night_arguments(bootstrap_servers, zookeeper, topic, output)
    log = output.with_suffix(".log")
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "spark_jobs", "nightly", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    if done.returncode:
        fail(f"the nightly batch ended with status {done.returncode}:\n{log.read_text(errors='replace')[-2000:]}")
    entries: list[dict[str, Any]] = json.loads(done.stdout)
    columns = ("job", "topic", "date", "state", "records", "late", "dead_letters", "files", "bytes")
    write_rows(entries, "table", columns=columns, name="job")
    archived = next(entry["records"] for entry in entries if entry["job"] == "archive")
    if archived != flights_of_day:
        fail(f"{flights_of_day} flights left on {DAY}, {archived} are in the archive", Exit.CHECK_FAILED)
    _print_delays(output, topic)
    _print_audit(output, topic)


def _print_delays(output: Path, topic: str) -> None:
    from pyarrow import parquet  # type: ignore[import-untyped]

    folder = output / "reprocessed" / _RESULT / f"topic={topic}" / f"date={DAY}"
    rows = [row for file in sorted(folder.glob("*.parquet")) for row in parquet.ParquetFile(file).read().to_pylist()]
    rows.sort(key=lambda row: (-row["flights"], row["carrier"], row["origin"]))
    write_rows(rows[:_SHOWN_ROWS], "table", columns=("carrier", "origin", "flights", "mean_delay"), name="carrier")
    if len(rows) > _SHOWN_ROWS:
        note(f"... and {len(rows) - _SHOWN_ROWS} more pairs of carrier and origin")


def _print_audit(output: Path, topic: str) -> None:
    report = json.loads((output / "_audit" / topic / f"{DAY}.json").read_bytes())
    partitions = {hour["partition"] for hour in report["hours"]}
    write_line(
        f"audit: log and archive agree on {report['records']:,} records in {len(report['hours'])} hours of "
        f"{len(partitions)} partitions; {len(report['differences'])} differences"
    )
    files = sorted(output.glob(f"archive/topic={topic}/date={DAY}/run=*/*.parquet"))
    for file in files:
        write_line(f"archived in {file.relative_to(output)}: {file.stat().st_size:,} bytes")
    (entry,) = output.glob(f"_ledger/archive/{topic}/{DAY}.json")
    write_line(f"its ledger is {entry.relative_to(output)}")
