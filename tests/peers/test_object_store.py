"""Nights whose output is on a server of S3: killed amid their publication and run again, they are what an undisturbed night is.

Folders of Parquet by the project's own Spark, Delta Lake and Iceberg tables by Spark 4.0. Drivers are programs of their own with the lock
in ZooKeeper. What they have put so far shows in the server's folder; KAFKALITE_STORE_SEED chooses how long after the first sign of a
table's commit its driver dies.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from deltalake import DeltaTable
from pyarrow import parquet
from pyiceberg.table import StaticTable

from kafkalite.client import NewTopic, SyncAdmin
from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch import layout
from tests.ecosystem.contract import Running
from tests.peers import object_store, spark_connector, table_packages
from tests.peers.object_store import BUCKET, KEY_ID, REGION, SECRET, ObjectStore
from tests.spark import class_data
from tests.spark.nights import DAY, FOREVER, Sent, archived, send
from tests.spark.sessions import SESSION, driver_environment

pytestmark = [pytest.mark.peer, pytest.mark.spark, pytest.mark.timeout(3600)]

SEED: Final = int(os.environ.get("KAFKALITE_STORE_SEED", "40"))
RUN_TIMEOUT_S: Final = 900
TOPIC: Final = "readings"
RECORDS: Final = 60
FILES: Final = 30
"""Of the first night: one of each task, which has two records."""

RAW: Final = ("--rows-per-task", str(RECORDS // FILES))
JSON: Final = (*RAW, "--value-format", "json", "--value-schema", "a int")
UNIT: Final = layout.run_unit(layout.ARCHIVE, TOPIC, DAY, DAY)
PROPERTIES: Final = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "1"}

Row = dict[str, Any]


@dataclass(frozen=True)
class Nights:
    """Commands on one cluster."""

    cluster: LocalCluster
    store: ObjectStore
    scratch: Path
    key: Path

    def start(
        self, command: str, output: str, *more: str, spark: Mapping[str, str], home: Mapping[str, str]
    ) -> Running:
        settings = SESSION | self.store.settings() | {"spark.local.dir": str(self.scratch / "local")} | spark
        words = [sys.executable, "-m", "spark_jobs", command, "--output", output, *more, "--master", "local[2]"]
        words += [word for name, text in settings.items() for word in ("--conf", f"{name}={text}")]
        return Running(words, {**home, **object_store.environment()}, self.scratch, "commands")

    def places(self, *, locks: bool = True) -> list[str]:
        """Options of commands about a topic; those that run nights take the lock, too."""
        found = [
            "--topic",
            TOPIC,
            "-b",
            self.cluster.bootstrap_servers,
            "--date",
            str(DAY),
            "--ledger-key",
            str(self.key),
        ]
        return [*found, "-z", self.cluster.zookeeper_connect, "--wait", "60"] if locks else found


@dataclass(frozen=True)
class Output:
    """An output on the object store, by one Spark; `folder` is what the server has of it."""

    nights: Nights
    name: str
    spark: Mapping[str, str]
    home: Mapping[str, str]

    @property
    def folder(self) -> Path:
        return self.nights.store.bucket / self.name

    def start(self, command: str, *more: str) -> Running:
        uri = f"s3a://{BUCKET}/{self.name}"
        return self.nights.start(command, uri, *more, spark=self.spark, home=self.home)

    def run(self, command: str, *more: str) -> str:
        """Run to the end, which must be a good one."""
        running = self.start(command, *more)
        try:
            return running.wait(RUN_TIMEOUT_S)
        finally:
            running.kill()

    def run_night(self, *more: str) -> None:
        self.run("nightly", *self.nights.places(), *more)

    def kill_night(self, sign: Callable[[], bool], what: str, *more: str, after_s: float = 0.0) -> None:
        """Kill a night, with its Java, a while after the first sign of something."""
        running = self.start("nightly", *self.nights.places(), *more)
        try:
            running.until(sign, what, RUN_TIMEOUT_S)
            with suppress(BaseException):
                running.process.wait(after_s)  # any moment of what follows
        finally:
            running.kill()

    def states(self) -> list[str]:
        """The states of the ledger's entries."""
        entries = sorted((self.folder / layout.ledger_folder("archive", TOPIC)).glob("*.json"))
        return [json.loads(each.read_bytes())["state"] for each in entries]

    def has_objects(self, pattern: str) -> bool:
        return any(each.is_file() and each.stat().st_size for each in self.folder.glob(pattern))


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    scratch = tmp_path_factory.mktemp("object-store")
    key = scratch / "ledger.key"
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with ObjectStore(scratch) as store, LocalCluster(brokers=1, properties=PROPERTIES) as cluster:
        with SyncAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 2, 1, topic_configs=FOREVER)])
        records = [Sent(DAY, number, number % 2, b"k%d" % number, b'{"a": %d}' % number) for number in range(RECORDS)]
        send(cluster.bootstrap_servers, TOPIC, records)
        yield Nights(cluster, store, scratch, key)


@pytest.fixture(scope="module")
def undisturbed(nights: Nights) -> list[Row]:
    """The rows of a night in a local folder, in the order of partitions and offsets."""
    output = nights.scratch / "undisturbed"
    running = nights.start("nightly", str(output), *nights.places(), *JSON, spark={}, home=driver_environment())
    try:
        running.wait(RUN_TIMEOUT_S)
    finally:
        running.kill()
    return [_without_run(row) for row in archived(output, TOPIC, DAY)]


def _without_run(row: Row) -> Row:
    """The row as it is in every format: PyIceberg gives an empty list where there is none."""
    found = {name: value for name, value in row.items() if name not in ("date", "run")}
    return {**found, "headers": row["headers"] or None}


def _in_order(rows: list[Row]) -> list[Row]:
    return sorted(map(_without_run, rows), key=lambda row: (row["partition"], row["offset"]))


def _part_files(unit: Path) -> list[str]:
    return sorted(each.name for each in unit.glob("part-*.parquet"))


def _counted_files(unit: Path) -> list[str]:
    """The files that count by the manifest; none before there is one."""
    manifest = unit / layout.MANIFEST
    return [each["name"] for each in json.loads(manifest.read_bytes())["files"]] if manifest.exists() else []


def _counted_rows(unit: Path) -> list[Row]:
    return _in_order(
        [row for name in _counted_files(unit) for row in parquet.ParquetFile(unit / name).read().to_pylist()]
    )


def test_a_killed_night_of_parquet_is_what_an_undisturbed_one_is(nights: Nights, undisturbed: list[Row]) -> None:
    hadoop = object_store.fetch_jars("3.5.0")
    output = Output(nights, "parquet", {"spark.jars": ",".join(hadoop)}, driver_environment())
    unit = output.folder / UNIT

    output.kill_night(lambda: len(_part_files(unit)) > 2, "the third file of the night", *RAW)
    some = _part_files(unit)
    print(f"killed when {len(some)} of {FILES} files were there")
    assert len(some) < FILES and not _counted_files(unit), "amid the publication nothing counts yet"
    assert output.states() == ["publishing"]

    # The next one finishes that night, and dies while it puts other files beside those.
    output.kill_night(lambda: len(_part_files(unit)) > FILES + 2, "files beside those of the first night", *JSON)
    print(f"killed when {len(_part_files(unit)) - FILES} of {FILES} other files were there")
    assert len(_counted_files(unit)) == FILES < len(_part_files(unit)) < 2 * FILES
    raw = [{name: value for name, value in row.items() if name != "decoded"} for row in undisturbed]
    assert _counted_rows(unit) == raw, "what counts is the first night as a whole"

    output.run_night(*JSON)
    assert _counted_rows(unit) == undisturbed
    assert _part_files(unit) == sorted(_counted_files(unit)), "nothing else is there"
    assert output.states() == ["done"]
    assert not [each for each in (output.folder / layout.STAGING).rglob("*") if each.is_file()]

    output.run("verify", *nights.places(locks=False))
    foreign = f"{output.name}/{UNIT}/part-00000-000-ffffffffffff.parquet"
    nights.store.put(foreign, (unit / _part_files(unit)[0]).read_bytes())
    refused = output.start("verify", *nights.places(locks=False))
    try:
        assert refused.process.wait(RUN_TIMEOUT_S) == 7, refused.said[-4000:]
    finally:
        refused.kill()
    assert "the file is none of the run's" in refused.said
    assert f'"state":"done","records":{RECORDS}' in "".join(output.run("status", "-o", "json").split())


def _read_delta(store: ObjectStore, table: str) -> list[Row]:
    options = {"AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": store.endpoint, **object_store.environment()}
    found: list[Row] = DeltaTable(f"s3://{BUCKET}/{table}", storage_options=options).to_pyarrow_table().to_pylist()
    return found


def _read_iceberg(store: ObjectStore, table: str) -> list[Row]:
    versions = (store.bucket / table / "metadata").glob("v*.metadata.json")
    newest = max(versions, key=lambda path: int(path.name.split(".")[0].removeprefix("v")))
    where = {"endpoint": store.endpoint, "region": REGION, "access-key-id": KEY_ID, "secret-access-key": SECRET}
    properties = {f"s3.{name}": text for name, text in where.items()}
    uri = f"s3a://{BUCKET}/{newest.relative_to(store.bucket)}"
    found: list[Row] = StaticTable.from_metadata(uri, properties).scan().to_arrow().to_pylist()
    return found


READERS: Final = {"delta": _read_delta, "iceberg": _read_iceberg}
COMMITS: Final = {"delta": "_delta_log/*.json", "iceberg": "metadata/v*.metadata.json"}


@pytest.mark.parametrize("table_format", READERS)
def test_a_killed_night_of_a_table_is_what_an_undisturbed_one_is(
    nights: Nights, undisturbed: list[Row], table_format: str
) -> None:
    jars = [*table_packages.jars().split(","), *object_store.fetch_jars("3.4.1")]
    java = {"spark.driver.extraJavaOptions": class_data.JAVA_OPTIONS, "spark.jars": ",".join(jars)}
    output = Output(nights, table_format, java, spark_connector.environment())
    chosen, chance = ("--table-format", table_format), random.Random(f"{SEED} {table_format}")
    table = f"{layout.ARCHIVE}/topic={TOPIC}"

    def check_rows() -> None:
        assert _in_order(READERS[table_format](nights.store, f"{table_format}/{table}")) == undisturbed

    def count_commits() -> int:
        return len(list((output.folder / table).glob(COMMITS[table_format])))

    def kill_night(sign: Callable[[], bool], what: str, longest_s: float) -> None:
        after_s = chance.uniform(0, longest_s)
        output.kill_night(sign, what, *JSON, *chosen, after_s=after_s)
        states = output.states()
        print(f"seed {SEED}: killed {after_s:.2f} s after {what}, {count_commits()} commits, the ledger says {states}")

    kill_night(lambda: output.has_objects(f"{table}/**/*.parquet"), "the first rows", 2)
    output.run_night(*JSON, *chosen)
    check_rows()
    assert output.states() == ["done"]
    before = count_commits()
    kill_night(lambda: count_commits() > before, "another commit", 1)
    check_rows()
    output.run_night(*JSON, *chosen)
    check_rows()
    assert output.states() == ["done"]

    output.run("maintain", "-z", nights.cluster.zookeeper_connect, "--wait", "60", *chosen)
    check_rows()
    output.run("verify", *nights.places(locks=False), *chosen)
