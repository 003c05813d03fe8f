"""The output folder through Spark's Hadoop client, on its own local file system: what HDFS does with the same calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch.failures import OutputError
from spark_jobs.batch.formats import Formats
from spark_jobs.batch.hadoop_storage import HadoopStorage
from spark_jobs.batch.storage import Entry
from spark_jobs.jobs import archive, audit
from tests.spark.conftest import TopicMaker
from tests.spark.nights import DAY, FOREVER, Sent, after, archived, ledger, night_on, places, send, tree

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def at(spark: Any, tmp_path: Path) -> HadoopStorage:
    return HadoopStorage(spark, tmp_path.as_uri())


def names(at: HadoopStorage, path: str) -> list[str]:
    return [entry.name for entry in at.entries(path)]


def test_files(at: HadoopStorage) -> None:
    at.write("a/b/file", b"one")
    at.write("a/b/file", b"two!")
    assert at.read("a/b/file") == b"two!"
    assert at.entries("a/b") == [Entry("file", 4, False)]
    assert names(at, "a") == ["b"]
    assert (at.read("nothing"), at.read("a"), at.entries("nothing")) == (None, None, [])
    at.remove("nothing")
    at.remove("a")
    assert at.entries("") == []


def test_folders_take_each_others_place(at: HadoopStorage) -> None:
    at.write("staged/new", b"")
    at.write("visible/old", b"")
    at.replace("staged", "visible")
    assert (names(at, "visible"), names(at, "staged")) == (["new"], ["old"])
    at.replace("staged", "below/fresh")
    assert names(at, "below/fresh") == ["old"]


def test_rows_of_a_parquet_file(at: HadoopStorage, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "file")
    assert at.parquet_rows("file") == 3


def test_what_the_file_system_refuses(at: HadoopStorage, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot write file://.*/file/below: "):
        at.write("file/below", b"")
    with pytest.raises(OutputError, match="cannot move "):
        at.move("nothing", "somewhere")


def test_an_archive_on_it(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(2, config=FOREVER)
    send(servers, topic, [Sent(day, second, second % 2) for second in range(6) for day in (DAY, after(1))])
    seen = []
    for _ in range(2):
        with night_on(spark, servers, tmp_path) as night:
            there = replace(night, storage=HadoopStorage(spark, tmp_path.as_uri()))
            archive.main(there, topic, DAY, Formats())
            audit.main(there, [topic], [DAY])
        seen.append({name: data for name, data in tree(tmp_path).items() if name.endswith(".parquet")})
    assert len(places(archived(tmp_path, topic, DAY))) == 6
    assert seen[0] == seen[1]
    assert len(ledger(tmp_path)) == 1
