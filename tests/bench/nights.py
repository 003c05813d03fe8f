"""Large nights: `python -m tests.bench.nights [--records 100000000] [--partitions 100] [--scales 1,4,16] [--kills 2] [--days 365]`.

A cluster of this machine gets a topic for each scale, the largest with `--records`; the first partition has a third of them, the second
one records that are ten times as large. A night runs over each topic, as `kafkalite spark run` does it, audit included: its time, rows per
second, and the peak of each process (driver, JVM, Python workers, brokers). One of them (`--kill-scale`) is run once more, killed with all
that belongs to it whenever a portion more is recorded, and run to its end: files and ledger must be the same. Last, records as many as the
smallest scale has are spread over `--days` and backfilled, so that starts and days show as the difference to that scale's night.

Results go to `tests/bench/results/nights-<moment>.json` and to a table. The command ends with 1 if outputs differ, or a process has had
more than `--memory-limit-mb`. It needs room for the logs, the archives (twice at the scale that is killed) and Spark's scratch files, by
estimate 25 GB for the defaults.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click
from pyarrow import parquet
from rich.console import Console
from rich.table import Table

from kafkalite.client import NewTopic, SyncAdmin, TopicPartition
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch import layout
from spark_jobs.batch.ledger import Ledger
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.jobs import archive
from tests.bench.machine import file_system, machine
from tests.bench.nights_load import FIRST_DAY, Load, send_all
from tests.bench.process_memory import Peaks, find_tree, read_processes, reset_peak, watch_memory
from tests.spark.nights import DIGESTS, FOREVER, TIMES, ledger

RESULTS: Final = Path(__file__).parent / "results"
NIGHT_LIMIT_S: Final = 6 * 3600
_NOTES: Final = 20


@dataclass(frozen=True, slots=True)
class Setup:
    """What all runs share."""

    partitions: int
    value_bytes: int
    cores: int
    driver_memory: str
    scratch: Path
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Night:
    """One run: what it was, its records, its time, the peaks of its processes, what it noted, the stages of the archive in ms."""

    name: str
    records: int
    took_s: float
    peak_mb: dict[str, int] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stages_ms: dict[str, int] = field(default_factory=dict)

    @property
    def rows_per_s(self) -> float:
        return self.records / self.took_s

    @property
    def read_rows_per_s(self) -> float | None:
        """The rate of the stage that reads the log and writes the archive."""
        read_ms = self.stages_ms.get("read")
        return self.records * 1000 / read_ms if read_ms else None


def scale_records(largest: int, scales: list[int]) -> dict[int, int]:
    """Return the records of each scale, of which the largest has all."""
    return {scale: max(1, largest * scale // max(scales)) for scale in sorted(scales)}


def relative_costs(nights: list[Night]) -> list[float]:
    """Return the time for a record in each night as a multiple of that in the first: 1 where time goes by the data alone."""
    first = nights[0].took_s / nights[0].records
    return [each.took_s / each.records / first for each in nights]


def find_excesses(nights: list[Night], limit_mb: int) -> list[str]:
    """Return what had more memory than the limit."""
    return [
        f"{each.name}: a process ({role}) had {peak} MB, more than {limit_mb}"
        for each in nights
        for role, peak in each.peak_mb.items()
        if peak > limit_mb
    ]


def differences(one: Path, other: Path) -> list[str]:
    """Return what differs between two outputs: files, rows of files, ledgers."""
    names = [sorted(_files(each)) for each in (one, other)]
    found = [f"only one output has {name}" for name in sorted(set(names[0]) ^ set(names[1]))]
    for name in sorted(set(names[0]) & set(names[1])):
        tables = [parquet.ParquetFile(each / name).read() for each in (one, other)]
        if not tables[0].equals(tables[1]):
            found.append(f"rows differ in {name}")
    if ledger(one, [*TIMES, *DIGESTS]) != ledger(other, [*TIMES, *DIGESTS]):
        found.append("the ledgers differ")
    return found


def _files(output: Path) -> set[str]:
    found = (str(each.relative_to(output)) for each in output.rglob("*.parquet"))
    return {name for name in found if not name.startswith("_")}


class Bench:
    """Runs nights over topics of one cluster."""

    def __init__(self, cluster: LocalCluster, setup: Setup, console: Console) -> None:
        self._cluster, self._setup, self._console = cluster, setup, console

    def fill(self, topic: str, load: Load) -> None:
        """Make a topic with all records of a load. RuntimeError when it has others in the end."""
        servers = self._cluster.bootstrap_servers
        with SyncAdmin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(topic, load.partitions, 1, topic_configs=FOREVER)])
            begun_s = time.monotonic()
            send_all(servers, topic, load, self._setup.cores)
            partitions = [TopicPartition(topic, number) for number in range(load.partitions)]
            ends = admin.list_offsets(dict.fromkeys(partitions, "latest"))
        found = [answer.offset if answer is not None else 0 for _, answer in sorted(ends.items())]
        if found != load.counts():
            raise RuntimeError(f"{topic} has {sum(found)} records, not {load.records}")
        took_s = time.monotonic() - begun_s
        self._console.print(
            f"{topic}: {load.records:,} records in {load.partitions} partitions, sent in {took_s:.0f} s"
        )

    def command(self, topic: str, output: Path, days: int) -> list[str]:
        """Return the command of a night, or of a backfill of several days."""
        cluster, setup, last = self._cluster, self._setup, FIRST_DAY + timedelta(days=days - 1)
        job = ["nightly", "--date", str(FIRST_DAY)]
        if days > 1:
            job = ["backfill", "--from", str(FIRST_DAY), "--to", str(last)]
        command = [sys.executable, "-m", "spark_jobs", *job, "--topic", topic, "--output", str(output)]
        command += ["-b", cluster.bootstrap_servers, "-z", cluster.zookeeper_connect, "--wait", "60"]
        command += ["--master", f"local[{setup.cores}]", "--conf", f"spark.driver.memory={setup.driver_memory}"]
        return [*command, "--conf", f"spark.local.dir={setup.scratch / 'spark'}", *setup.more]

    def run(self, name: str, topic: str, output: Path, records: int, days: int = 1) -> Night:
        """Run a night to its end, which must be a good one."""
        brokers = {f"broker {each.id}": each.pid for each in self._cluster.brokers.values()}
        for pid in brokers.values():
            reset_peak(pid)
        log = self._setup.scratch / f"{output.name}.log"
        begun_s = time.monotonic()
        with log.open("a") as said:
            process = subprocess.Popen(self.command(topic, output, days), stdout=said, stderr=said)
            try:
                with watch_memory(process.pid, brokers) as peaks:
                    process.wait(NIGHT_LIMIT_S)
            finally:
                _kill_all(process)
        took_s = time.monotonic() - begun_s
        lines = log.read_text().splitlines()
        if process.returncode != 0:
            raise RuntimeError(f"{name} ended with {process.returncode}:\n" + "\n".join(lines[-_NOTES:]))
        entries = Ledger(LocalStorage(output), archive.JOB).all_done(topic)
        archived = sum(each.counts["records"] for each in entries)
        if archived != records:
            raise RuntimeError(f"{name} archived {archived} records, not {records}")
        stages: dict[str, int] = {}
        for entry in entries:
            for stage, took_ms in (entry.facts.stages_ms if entry.facts is not None else {}).items():
                stages[stage] = stages.get(stage, 0) + took_ms
        night = Night(name, records, took_s, *_megabytes(peaks), tuple(lines[-_NOTES:]), stages)
        self._console.print(f"{name}: {took_s:.1f} s, {night.rows_per_s:,.0f} rows/s")
        return night

    def kill_nights(self, topic: str, output: Path, kills: int) -> list[int]:
        """Begin a night so many times, and kill it when a portion more is recorded; return how many were, each time."""
        recorded = []
        for _ in range(kills):
            before = count_portions(output)
            with (self._setup.scratch / f"{output.name}.log").open("a") as said:
                process = subprocess.Popen(self.command(topic, output, 1), stdout=said, stderr=said)
                try:
                    wait_until(
                        lambda process=process, before=before: (  # type: ignore[misc]
                            process.poll() is not None or count_portions(output) > before
                        ),
                        "a portion more of a night",
                        NIGHT_LIMIT_S,
                    )
                    if process.poll() is not None:
                        raise RuntimeError(
                            f"the night ended with {process.returncode} before it was killed {kills} times: give "
                            "--night-option=--rows-per-task=N with fewer rows, so that there are more portions"
                        )
                finally:
                    _kill_all(process)
            recorded.append(count_portions(output))
            self._console.print(f"killed with {recorded[-1]} portions recorded")
        return recorded


def count_portions(output: Path) -> int:
    """Return how many portions an attempt has recorded in an output."""
    return len(list((output / layout.STAGING).glob("*/portions/*.json")))


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and all that it has started, whose parents may be gone then."""
    for each in find_tree(read_processes(), process.pid):
        if each.pid != process.pid:
            try:
                os.kill(each.pid, 9)
            except ProcessLookupError:
                continue
    process.kill()
    process.wait()


def _megabytes(peaks: Peaks) -> tuple[dict[str, int], dict[str, int]]:
    return (
        {role: peak // 1_000_000 for role, peak in sorted(peaks.peak_bytes.items())},
        {role: len(pids) for role, pids in sorted(peaks.pids.items())},
    )


def measure(bench: Bench, setup: Setup, folder: Path, scales: dict[int, int], kill: tuple[int, int], days: int) -> Any:
    """Return the nights, the backfill if there is one, and what differs after kills; `kill` is the scale, and how many times."""
    nights: list[Night] = []
    killed: dict[str, Any] = {}
    for scale, records in scales.items():
        topic, output = f"night-{scale}", folder / f"night-{scale}"
        bench.fill(topic, Load(records, setup.partitions, value_bytes=setup.value_bytes))
        nights.append(bench.run(f"{scale}x", topic, output, records))
        if kill[1] and scale == kill[0]:
            again = folder / f"killed-{scale}"
            recorded = bench.kill_nights(topic, again, kill[1])
            last = bench.run(f"{scale}x, killed {kill[1]} times, the last run", topic, again, records)
            killed = {"portions": recorded, "last": last, "differences": differences(output, again)}
            shutil.rmtree(again)
        shutil.rmtree(output)
    backfill = None
    if days > 1:
        records = min(scales.values())
        bench.fill("days", Load(records, setup.partitions, days=days, value_bytes=setup.value_bytes))
        backfill = bench.run(f"{days} days, backfilled", "days", folder / "days", records, days)
    return nights, backfill, killed


def show(nights: list[Night], backfill: Night | None, console: Console) -> None:
    """Print the table."""
    table = Table(title="nights, with their audits")
    every = [*nights, *([backfill] if backfill is not None else [])]
    roles = sorted({role for each in every for role in each.peak_mb})
    for column in ("", "records", "s", "rows/s", "read, rows/s", "for a record", *(f"{role}, MB" for role in roles)):
        table.add_column(column, justify="right" if column else "left")
    for each, cost in zip(every, relative_costs(every), strict=True):
        rate = each.read_rows_per_s
        row = [each.name, f"{each.records:,}", f"{each.took_s:.1f}", f"{each.rows_per_s:,.0f}"]
        row += [f"{rate:,.0f}" if rate else "", f"{cost:.2f}x"]
        table.add_row(*row, *(str(each.peak_mb.get(role, "")) for role in roles))
    console.print(table)


@click.command()
@click.option("--records", type=click.IntRange(1), default=100_000_000, show_default=True, help="Of the largest scale.")
@click.option("--partitions", type=click.IntRange(1), default=100, show_default=True)
@click.option("--scales", default="1,4,16", show_default=True, help="Sizes of the nights, relative to each other.")
@click.option("--value-bytes", type=click.IntRange(2), default=100, show_default=True)
@click.option("--brokers", type=click.IntRange(1), default=1, show_default=True)
@click.option("--cores", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True, help="Of Spark.")
@click.option("--driver-memory", default="2g", show_default=True, help="Heap of the JVM, spark.driver.memory.")
@click.option("--kills", type=click.IntRange(0), default=2, show_default=True, help="Of one night.")
@click.option("--kill-scale", type=int, help="Which scale that is. [default: the second largest]")
@click.option("--days", type=click.IntRange(1), default=365, show_default=True, help="Of the backfill; 1 for none.")
@click.option("--memory-limit-mb", type=click.IntRange(1), default=4000, show_default=True, help="Of each process.")
@click.option("--night-option", "more", multiple=True, help="An option of the nights, like --rows-per-task=1000.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="For logs, outputs and scratch files.")
def main(
    records: int,
    partitions: int,
    scales: str,
    value_bytes: int,
    brokers: int,
    cores: int,
    driver_memory: str,
    kills: int,
    kill_scale: int | None,
    days: int,
    memory_limit_mb: int,
    more: tuple[str, ...],
    folder: Path | None,
) -> None:
    """Run nights of several sizes, and say what they cost."""
    chosen = scale_records(records, [int(each) for each in scales.split(",")])
    killed_scale = kill_scale if kill_scale is not None else sorted(chosen)[-2:][0]
    if killed_scale not in chosen:
        raise click.BadParameter(f"{killed_scale} is none of --scales {scales}", param_hint="--kill-scale")
    console = Console(width=160)
    with tempfile.TemporaryDirectory(dir=folder, prefix="kafkalite-nights-") as name:
        scratch = Path(name)
        setup = Setup(partitions, value_bytes, cores, driver_memory, scratch, more)
        with LocalCluster(brokers=brokers, directory=scratch / "cluster") as cluster:
            bench = Bench(cluster, setup, console)
            nights, backfill, killed = measure(bench, setup, scratch, chosen, (killed_scale, kills), days)
    RESULTS.mkdir(exist_ok=True)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    result = {
        "machine": machine(),
        "file_system": file_system(),
        "setup": {**asdict(setup), "scratch": str(scratch), "brokers": brokers},
        "nights": [asdict(each) for each in nights],
        "relative_costs": relative_costs(nights),
        "backfill": None if backfill is None else asdict(backfill),
        "killed": {**killed, "last": asdict(killed["last"])} if killed else None,
    }
    (RESULTS / f"nights-{moment}.json").write_text(json.dumps(result, indent=1))
    show(nights, backfill, console)
    last = [killed["last"]] if killed else []
    every = [*nights, *last, *([backfill] if backfill is not None else [])]
    found = [*killed.get("differences", ()), *find_excesses(every, memory_limit_mb)]
    for text in found:
        console.print(text, style="red")
    if last:
        console.print(f"{last[0].name}: {last[0].took_s:.1f} s")
        console.print(f"killed with {killed['portions']} portions recorded: {len(killed['differences'])} differences")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
