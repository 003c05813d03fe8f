"""Nights into Delta Lake and Iceberg tables, read back by delta-rs and PyIceberg: the rows of each run, each once.

What is done to both formats is in `table_nights`, which runs once for all of these tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from kafkalite.client import NewTopic, SyncAdmin
from kafkalite.local.cluster import LocalCluster
from tests.peers import spark_connector, table_packages
from tests.spark.nights import DAY, FOREVER, Sent, after, send, unix_ms

pytestmark = [pytest.mark.peer, pytest.mark.spark, pytest.mark.timeout(900)]

TOPIC = "readings"
FORMATS = ("delta", "iceberg")
DAYS = (DAY, after(1))
PARTITIONS = 2
RECORDS = [
    Sent(DAY, number, number % PARTITIONS, b"k%d" % number if number else None, b'{"a": %d}' % number)
    for number in range(20)
]
HEADERS: list[tuple[str, bytes | None]] = [("h", b"1"), ("n", None)]
MORE = [Sent(DAY, 100, 0, b"late", b'{"a": 100}', HEADERS), Sent(DAY, 200, 1, b"bad", b"{")]
"""A record with headers, and one that does not decode."""

GOOD = len(RECORDS) + 1
RERUN = [(DAYS[1], 1001, {"a": 2, "b": "two"}), (DAYS[1], 1002, {"a": 3, "b": "three"})]
"""What the second night has after its rerun: date, offset, decoded (`table_nights`)."""


@dataclass(frozen=True)
class Seen:
    """Where the tables are, and what the program answered."""

    output: Path
    answer: dict[str, Any]

    def rows(self, table_format: str, kind: str = "archive") -> list[dict[str, Any]]:
        """All rows of a table as an independent reader finds them, in the order of runs, partitions and offsets."""
        table = self.output / table_format / kind / f"topic={TOPIC}"
        if table_format == "delta":
            found = DeltaTable(table).to_pyarrow_table()
        else:
            versions = (table / "metadata").glob("v*.metadata.json")
            newest = max(versions, key=lambda path: int(path.name.split(".")[0].removeprefix("v")))
            found = StaticTable.from_metadata(str(newest)).scan().to_arrow()
        rows: list[dict[str, Any]] = found.to_pylist()
        return sorted(rows, key=lambda row: (row["run"], row["partition"], row["offset"]))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    jars = table_packages.jars()
    scratch = tmp_path_factory.mktemp("table-nights")
    properties = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "1"}
    with LocalCluster(brokers=1, properties=properties) as cluster:
        with SyncAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, topic_configs=FOREVER)])
        send(cluster.bootstrap_servers, TOPIC, [*RECORDS, *MORE])
        asked = {
            "jars": jars,
            "servers": cluster.bootstrap_servers,
            "topic": TOPIC,
            "days": list(map(str, DAYS)),
            "output": str(scratch / "output"),
        }
        return Seen(scratch / "output", spark_connector.run_program("tests.peers.table_nights", asked, scratch, 800))


@pytest.mark.parametrize("table_format", FORMATS)
def test_the_first_night_is_what_was_sent(seen: Seen, table_format: str) -> None:
    expected = []
    for partition in range(PARTITIONS):
        sent = [each for each in [*RECORDS, *MORE[:1]] if each.partition == partition]
        expected += [
            (partition, offset, each.key, each.value, unix_ms(each.day, each.second), each.headers or None)
            for offset, each in enumerate(sent)
        ]
    found = [
        (
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            int(row["timestamp"].timestamp() * 1000),
            [(each["key"], each["value"]) for each in row["headers"]] if row["headers"] else None,
        )
        for row in seen.rows(table_format)
        if row["run"] == DAYS[0]
    ]
    assert found == expected
    (dead,) = seen.rows(table_format, "dead_letters")
    assert (dead["key"], dead["value"], dead["date"], dead["run"]) == (b"bad", b"{", DAYS[0], DAYS[0])


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_rerun_has_replaced_the_night_with_its_late_records(seen: Seen, table_format: str) -> None:
    found = [row for row in seen.rows(table_format) if row["run"] == DAYS[1]]
    assert [(row["date"], row["offset"], row["decoded"]) for row in found] == RERUN
    assert all(row["key"] is None for row in found)  # the run had no such column


@pytest.mark.parametrize("table_format", FORMATS)
def test_rows_of_before_have_nothing_in_a_new_field(seen: Seen, table_format: str) -> None:
    found = [row["decoded"] for row in seen.rows(table_format) if row["run"] == DAYS[0]]
    assert sorted(each["a"] for each in found) == [*range(len(RECORDS)), 100]
    assert all(each["b"] is None for each in found)


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_night_is_one_commit_also_when_its_driver_died_behind_it(seen: Seen, table_format: str) -> None:
    found, nights = seen.answer[table_format], [str(day) for day in DAYS]
    assert found["states after death"] == ["publishing"]
    assert found["commits after death"] == nights
    assert found["told"] == [f"archive of {TOPIC} {DAYS[1]}: finishing what an earlier run had begun to publish"]
    assert found["done"] == nights
    assert found["commits after recovery"] == nights
    assert found["commits after rerun"] == [*nights, nights[1]]


@pytest.mark.parametrize("table_format", FORMATS)
def test_columns_that_do_not_fit_are_refused_and_change_nothing(seen: Seen, table_format: str) -> None:
    found = seen.answer[table_format]
    assert "decoded.a is int in the table and string in the night" in found["refused"]
    assert found["states after refusal"] == ["planned"]
    assert found["commits after refusal"] == found["commits after rerun"]


@pytest.mark.parametrize("table_format", FORMATS)
def test_the_audit_reads_the_table(seen: Seen, table_format: str) -> None:
    found = seen.answer[table_format]
    assert (found["differences"], found["audited"]) == ([], len(RECORDS) + len(MORE))


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_night_in_a_table_is_proven(seen: Seen, table_format: str) -> None:
    """By the log and by the ledger alone, with late rows of another run beside it, compacted files and dead letters."""
    found = seen.answer[table_format]
    assert (found["proof"], found["proof by the ledger"], found["proof in the end"]) == ([], [], [])


@pytest.mark.parametrize("table_format", FORMATS)
def test_faults_put_into_a_table_are_named_with_their_offsets(seen: Seen, table_format: str) -> None:
    found = seen.answer[table_format]
    problems = ("is missing", "is there 2 times", "has other contents")
    wanted = [[f"{TOPIC}-{p}", f"offset {at} {text}"] for (p, at), text in zip(found["faults"], problems, strict=True)]
    assert sorted(found["proof of faults"]) == sorted(wanted)


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_lost_file_of_a_table_is_named_with_its_offsets(seen: Seen, table_format: str) -> None:
    found = seen.answer[table_format]
    (row,) = found["lost"]
    (path, problem), *others = found["proof of the lost file"]
    assert (path.startswith(f"dead_letters/topic={TOPIC}/"), problem) == (True, "the file is lost")
    assert others == [[f"{TOPIC}-{row['partition']}", f"offset {row['offset']} is missing"]]


def test_a_spark_without_the_classes_is_told_how_to_get_them(seen: Seen) -> None:
    assert "Spark does not find Delta Lake (no.such.Class) in none. Packages come from Maven" in seen.answer["missing"]


@pytest.mark.parametrize("table_format", FORMATS)
def test_maintenance_compacts_and_expires(seen: Seen, table_format: str) -> None:
    """Both tables are read above as maintenance has left them."""
    dry, done = (seen.answer[table_format][f"maintenance, dry_run={dry_run}"] for dry_run in (True, False))
    assert [row["table"] for row in dry] == [f"{kind}/topic={TOPIC}" for kind in ("archive", "dead_letters")]
    assert [row["files"] for row in done] == [row["files"] for row in dry]
    assert dry[0]["compacted"] == done[0]["compacted"] > done[0]["written"] > 0
    assert done[0]["expired_files"] > 0
    assert done[1]["compacted"] == 0
