"""The bench of large nights: its records, what it finds of processes, what it compares, all without a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.bench.nights import Night, count_portions, differences, find_excesses, relative_costs, scale_records
from tests.bench.nights_load import FIRST_DAY, Load, list_turns, share_partitions
from tests.bench.process_memory import (
    DRIVER,
    JVM,
    OTHER,
    WORKER,
    Peaks,
    Process,
    find_tree,
    read_process,
    role_of,
    watch_memory,
)

MEMORY = 64 << 20


@pytest.mark.parametrize("load", [Load(1000, 1), Load(1000, 100), Load(7, 3), Load(100, 4, skew=0.0)])
def test_partitions_have_all_records(load: Load) -> None:
    counts = load.counts()
    assert (len(counts), sum(counts)) == (load.partitions, load.records)
    assert max(counts[1:], default=0) - min(counts[1:], default=0) <= 1 and counts[0] >= max(counts) - 1


def test_one_partition_has_a_third_and_one_has_large_records() -> None:
    load = Load(100_000_000, 100)
    assert load.counts()[0] == 30_000_000
    assert Counter(load.value_size(partition) for partition in range(100)) == {100: 99, 1000: 1}


def test_times_are_those_of_the_days_in_order() -> None:
    load = Load(1000, 2, days=3)
    times = [load.time_ms(number, 700) for number in range(700)]
    assert times == sorted(times)
    dates = [datetime.fromtimestamp(each / 1000, UTC).date() for each in times]
    assert (dates[0], (dates[-1] - FIRST_DAY).days) == (FIRST_DAY, 2) and len(set(dates)) == 3


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_senders_share_the_records(processes: int) -> None:
    counts = Load(10_000, 10).counts()
    shares = share_partitions(counts, processes)
    assert sorted(partition for share in shares for partition in share) == list(range(10))
    sent: dict[int, list[int]] = {}
    for share in shares:
        for partition, part in list_turns(counts, share, 70):
            sent.setdefault(partition, []).extend(part)
    assert sent == {partition: list(range(count)) for partition, count in enumerate(counts)}
    sums = [sum(counts[each] for each in share) for share in shares]
    assert max(sums) - min(sums) <= max(counts)


def test_scales_and_costs() -> None:
    assert scale_records(100_000_000, [16, 1, 4]) == {1: 6_250_000, 4: 25_000_000, 16: 100_000_000}
    nights = [Night("1x", 100, 10.0, stages_ms={"read": 5000}), Night("4x", 400, 36.0)]
    assert relative_costs(nights) == [1.0, pytest.approx(0.9)]
    assert nights[0].rows_per_s == 10 and nights[0].read_rows_per_s == 20 and nights[1].read_rows_per_s is None


def test_processes_beyond_the_limit_are_named() -> None:
    nights = [Night("1x", 1, 1.0, {"JVM": 4000, "driver": 90}), Night("4x", 1, 1.0, {"JVM": 4001})]
    assert find_excesses(nights, 4000) == ["4x: a process (JVM) had 4001 MB, more than 4000"]


def test_outputs_are_compared_to_the_row(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        (folder / "archive").mkdir(parents=True)
        (folder / "_ledger").mkdir()
        entry = {"records": 1, "done_ms": len(folder.name), "digest": folder.name}
        (folder / "_ledger/1.json").write_text(json.dumps(entry))
        parquet.write_table(pa.table({"offset": [1, 2]}), folder / "archive/a.parquet")
    assert differences(*folders) == []
    parquet.write_table(pa.table({"offset": [1, 3]}), folders[1] / "archive/a.parquet")
    parquet.write_table(pa.table({"offset": [1]}), folders[0] / "archive/b.parquet")
    (folders[1] / "_ledger/1.json").write_text('{"records": 2}')
    assert differences(*folders) == [
        "only one output has archive/b.parquet",
        "rows differ in archive/a.parquet",
        "the ledgers differ",
    ]


def test_recorded_portions_are_counted(tmp_path: Path) -> None:
    assert count_portions(tmp_path) == 0
    (tmp_path / "_staging/a/portions").mkdir(parents=True)
    (tmp_path / "_staging/a/portions/00000.json").touch()
    (tmp_path / "_staging/a/portions/.00001.json.7.tmp").touch()
    assert count_portions(tmp_path) == 1


def test_roles_and_trees() -> None:
    tree = [
        Process(1, 0, ("python", "-m", "spark_jobs"), 5),
        Process(2, 1, ("/usr/bin/java", "-cp"), 9),
        Process(3, 2, ("python", "-m", "pyspark.daemon"), 3),
        Process(4, 3, ("python", "-m", "pyspark.daemon"), 4),
        Process(5, 1, ("sh",), 1),
    ]
    others = [Process(6, 0, ("java",), 99)]
    assert {each.pid for each in find_tree([*others, *tree], 1)} == {1, 2, 3, 4, 5}
    assert [role_of(each, 1) for each in tree] == [DRIVER, JVM, WORKER, WORKER, OTHER]
    peaks = Peaks()
    for each in tree:
        peaks.add(role_of(each, 1), each)
    assert peaks.peak_bytes == {DRIVER: 5, JVM: 9, WORKER: 4, OTHER: 1} and peaks.pids[WORKER] == {3, 4}


def test_peaks_of_a_real_program() -> None:
    """One process that has had 64 MiB, though it has given them back."""
    code = f"import sys; b = bytes({MEMORY}) + b'1'; del b; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            with watch_memory(process.pid, {"self": os.getpid()}) as peaks:
                pass
        finally:
            process.kill()
    assert MEMORY < peaks.peak_bytes[DRIVER] < 100 * MEMORY
    assert set(peaks.pids) == {DRIVER, "self"} and peaks.pids["self"] == {os.getpid()}
    assert read_process(process.pid) is None
