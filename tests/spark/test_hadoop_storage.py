"""The output folder through Spark's Hadoop client, on its own local file system: what HDFS and object stores do with the same calls."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch import layout
from spark_jobs.batch.failures import OutputError
from spark_jobs.batch.formats import Formats
from spark_jobs.batch.hadoop_storage import HadoopStorage, ObjectStorage, open_hadoop_storage
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


def test_object_stores_are_told_by_their_scheme(spark: Any, tmp_path: Path) -> None:
    assert type(open_hadoop_storage(spark, tmp_path.as_uri())) is HadoopStorage
    with pytest.raises(
        OutputError, match=r"S3AFileSystem not found; .*spark\.jars\.packages=org\.apache\.hadoop:hadoop-aws:3\."
    ):
        open_hadoop_storage(spark, "s3a://bucket/nightly")


def test_the_root_of_a_file_system(spark: Any) -> None:
    """As `s3a://bucket` and `hdfs://name` are, whose path needs a slash."""
    at = HadoopStorage(spark, "file://name")
    assert (at.spark_path(""), at.spark_path("a"), at.uri) == ("file://name/", "file://name/a", "file://name")


def test_an_archive_as_on_an_object_store(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Its files have names of their own run, where the store tells no tags; those of the run before go."""
    servers, topic = cluster.bootstrap_servers, make_topic(2, config=FOREVER)
    send(servers, topic, [Sent(DAY, second, second % 2) for second in range(6)])
    unit = tmp_path / layout.run_unit(layout.ARCHIVE, topic, DAY, DAY)
    seen = []
    for _ in range(2):
        with night_on(spark, servers, tmp_path) as night:
            there = replace(night, storage=ObjectStorage(spark, tmp_path.as_uri()))
            archive.main(there, topic, DAY, Formats())
            audit.main(there, [topic], [DAY])
        seen.append(sorted(each.name for each in unit.glob("*.parquet")))
        listed = json.loads((unit / layout.MANIFEST).read_bytes())["files"]
        assert [each["name"] for each in listed] == seen[-1]
        assert len(places(archived(tmp_path, topic, DAY))) == 6
    assert not set(seen[0]) & set(seen[1])
