"""Archive and audit: days by timestamp, late records, dead letters, repeating, what retention takes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pyarrow import parquet
from pyspark.sql import functions as F

from kafkalite.client import NewTopic, SyncAdmin, SyncProducer, TopicPartition
from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch import layout
from spark_jobs.batch.failures import DataLossError, DeadLettersError, DifferencesError, OutputError, UnknownTopicError
from spark_jobs.batch.formats import Format, Formats
from spark_jobs.batch.ledger import Ledger
from spark_jobs.batch.proof import list_offsets
from spark_jobs.batch.signatures import load_checker, load_signer
from spark_jobs.jobs import archive, audit, backfill, nightly, verify
from spark_jobs.jobs.nightly import Program
from spark_jobs.task_reading.local_dates import LocalDates
from tests.spark.conftest import TopicMaker
from tests.spark.nights import DAY, FOREVER, Sent, after, archived, ledger, night_on, places, send, tree, unix_ms

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

RAW = Formats()
JSON = Formats(Format("string"), Format("json", "carrier string, delay int"))


def test_life_of_an_archive(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    """Two nights, records that come late for both, a third night; then again: same bytes; the audit agrees throughout."""
    servers, topic = cluster.bootstrap_servers, make_topic(2, config=FOREVER)
    last_second = 86_399
    # In partition 0 the days are mixed up, and the day's edges belong to the day.
    send(
        servers,
        topic,
        [Sent(after(1)), Sent(DAY, last_second), Sent(DAY), Sent(after(-1), last_second), Sent(after(1), 5)],
    )
    send(servers, topic, [Sent(DAY, 7, 1, None, None, [("h", b"x"), ("h", None)]), Sent(after(2), 0, 1)])
    with night_on(spark, servers, tmp_path) as night:
        first = archive.main(night, topic, DAY, RAW)
        archive.main(night, topic, after(1), RAW)
        audit.main(night, [topic], [DAY, after(1)])
    assert first.counts == {"records": 3, "late": 0, "dead_letters": 0}
    facts = Ledger(night.storage, archive.JOB).read_done(topic, DAY).facts  # type: ignore[union-attr]
    assert facts is not None and facts == first.facts
    assert facts.hours == {unix_ms(DAY): {0: 1, 1: 1}, unix_ms(DAY, last_second - 3599): {0: 1}}
    assert facts.lateness.records == (1, 1, 0, 0, 0, 0, 1, 0), "two of partition 0 came after one of the next day"
    assert (facts.lateness.max_ms, facts.lateness.sum_ms) == (86_400_000, 86_401_000)
    assert list(facts.stages_ms) == ["plan", "read", "check", "publish"]
    rows = archived(tmp_path, topic, DAY)
    assert places(rows) == [(0, 1), (0, 2), (1, 0)]
    assert (rows[2]["key"], rows[2]["value"]) == (None, None)
    assert rows[2]["headers"] == [{"key": "h", "value": b"x"}, {"key": "h", "value": None}]
    assert {row["run"] for row in rows} == {str(DAY)}
    assert places(archived(tmp_path, topic, after(1))) == [(0, 0), (0, 4)]

    send(servers, topic, [Sent(DAY, 9), Sent(after(1), 9), Sent(after(-1), 9), Sent(after(2), 9, 1)])
    with night_on(spark, servers, tmp_path) as night:
        (report,) = audit.main(night, [topic], [DAY])
        assert report.pending == 1
        third = archive.main(night, topic, after(2), RAW)
        audit.main(night, [topic], [DAY, after(1), after(2)])
        group = night.group("archive")
    with SyncAdmin(bootstrap_servers=servers) as admin:
        offsets = admin.list_group_offsets(group)
    assert third.counts == {"records": 2, "late": 2, "dead_letters": 0}
    assert third.facts is not None and third.facts.hours == {unix_ms(after(2)): {1: 2}}, "late ones are of other dates"
    assert {(row["offset"], row["run"]) for row in archived(tmp_path, topic, DAY) if row["partition"] == 0} == {
        (1, str(DAY)),
        (2, str(DAY)),
        (5, str(after(2))),
    }
    assert not (tmp_path / layout.dated_unit(layout.ARCHIVE, topic, after(-1))).exists(), "was never archived"
    committed = {each.partition: found.offset for each, found in offsets.items() if found is not None}
    assert committed == {0: 8, 1: 3}, "ordinary lag tools see how far the archive is"

    before = tree(tmp_path), ledger(tmp_path)
    send(servers, topic, [Sent(DAY, 11)])
    with night_on(spark, servers, tmp_path) as night:
        for day in (DAY, after(1), after(2)):
            archive.main(night, topic, day, RAW)
    assert (tree(tmp_path), ledger(tmp_path)) == before
    assert not (tmp_path / layout.STAGING).exists()


def test_a_signed_night_is_proven(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    """With late, undecodable and undated records, by the log and by the ledger alone; then a record and a file are taken away."""
    servers, topic = cluster.bootstrap_servers, make_topic(2, config=FOREVER)
    good, bad = b'{"carrier": "AA", "delay": 3}', b"{"
    first = [Sent(DAY, second, second % 2, b"k", good if second % 5 else bad) for second in range(20)]
    send(servers, topic, [*first, Sent(after(1)), Sent(DAY, 40, 1, None, None, [("h", b"x"), ("h", None)])])
    key, output = tmp_path / "ledger.key", tmp_path / "output"
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with night_on(spark, servers, output) as unsigned:
        night = replace(unsigned, sign=load_signer(key))
        archive.main(night, topic, DAY, JSON)
        with SyncProducer(bootstrap_servers=servers, acks="all") as producer:
            producer.send(topic, good, b"k", partition=0, timestamp_ms=1_371_254_400_000_000_000)
            producer.flush()
        send(servers, topic, [Sent(DAY, 50, 0, b"k", good), Sent(after(1), 3, 1, b"k", good)])
        archive.main(night, topic, after(1), JSON)
        days, check = [DAY, after(1)], load_checker(key)
        for log in (night.log, None):
            found = verify.main(night.storage, log, [topic], days, check)
            assert [each.findings for each in found] == [(), ()]
            assert [each.records for each in found] == [21, 4]
        assert [each.in_log for each in verify.main(night.storage, night.log, [topic], days, check)] == [21, 4]
        lost = next((output / layout.dated_unit(layout.DEAD_LETTERS, topic, DAY)).rglob("*.parquet"))
        gone = places(parquet.ParquetFile(lost).read().to_pylist())
        lost.unlink()
        (of_day, of_next) = verify.main(night.storage, night.log, [topic], days, check)
    assert not of_next.findings
    assert sorted(each.problem for each in of_day.findings[1:]) == sorted(
        f"offset {list_offsets([offset for p, offset in gone if p == partition])} is missing"
        for partition in {partition for partition, _ in gone}
    )


def test_refresh_takes_what_came_since(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    send(servers, topic, [Sent(DAY)])
    with night_on(spark, servers, tmp_path) as night:
        archive.main(night, topic, DAY, RAW)
    send(servers, topic, [Sent(DAY, 1)])
    told: list[str] = []
    with night_on(spark, servers, tmp_path, refresh=True, told=told) as night:
        assert archive.main(night, topic, DAY, RAW).counts["records"] == 2
        archive.main(night, topic, after(1), RAW)
        send(servers, topic, [Sent(DAY, 2), Sent(after(1), 2)])
        archive.main(night, topic, after(1), RAW)
        # The run of the next day has taken what came late for this one.
        assert archive.main(night, topic, DAY, RAW).counts["records"] == 2
        audit.main(night, [topic], [DAY, after(1)])
    assert any("nothing to refresh" in line for line in told)
    assert [(row["offset"], row["run"]) for row in archived(tmp_path, topic, DAY)] == [
        (0, str(DAY)),
        (1, str(DAY)),
        (2, str(after(1))),
    ]


def test_undecodable_records_never_stop_the_night(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    values = [b'{"carrier": "UA", "delay": 3}', b"{", None, b'{"delay": "late"}', b'{"carrier": "AA"}']
    send(servers, topic, [Sent(DAY, second, 0, b"k", value) for second, value in enumerate(values)])
    send(servers, topic, [Sent(DAY, 9, 0, b"\xff", b"{}")])
    with night_on(spark, servers, tmp_path) as night:
        with pytest.raises(DeadLettersError, match=rf"3 records became dead letters \(archive of {topic} 3\)"):
            nightly.main(night, Program(JSON), [topic], DAY)
        night.dead_letters.clear()
        (entry,) = nightly.main(night, Program(JSON, dead_letters_allowed=3), [topic], DAY)
    kinds = ["key: not UTF-8", "value: field delay: no whole number", "value: not JSON"]
    assert entry.facts is not None and entry.facts.dead_letters == dict.fromkeys(kinds, 1)
    assert "dead letters" in entry.facts.stages_ms
    rows = archived(tmp_path, topic, DAY)
    assert [row["decoded"] for row in rows] == [
        {"carrier": "UA", "delay": 3},
        None,
        {"carrier": "AA", "delay": None},
    ]
    assert {row["decoded_key"] for row in rows} == {"k"}
    dead = archived(tmp_path, topic, DAY, layout.DEAD_LETTERS)
    assert [(row["offset"], row["value"]) for row in dead] == [(1, values[1]), (3, values[3]), (5, b"{}")]
    assert dead[0]["reason"].startswith("value: not JSON: ")
    assert dead[1]["reason"] == "value: field delay: 'late' is no whole number"
    assert dead[2]["reason"] == "key: not UTF-8: invalid start byte at byte 0"


def test_files_are_bounded(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    """Each file holds at most so many bytes of records, a larger record one of its own."""
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    sizes = [900] * 20 + [5000] + [100] * 30
    send(servers, topic, [Sent(DAY, second, 0, None, bytes(size)) for second, size in enumerate(sizes)])
    with night_on(spark, servers, tmp_path, max_file_bytes=4000, rows_per_task=25) as night:
        archive.main(night, topic, DAY, RAW)
        audit.main(night, [topic], [DAY])
    files = sorted((tmp_path / layout.run_unit(layout.ARCHIVE, topic, DAY, DAY)).glob("*.parquet"))
    held = [[len(row["value"]) for row in parquet.ParquetFile(file).read().to_pylist()] for file in files]
    assert [size for sizes_of_file in held for size in sizes_of_file] == sizes
    assert all(sum(each) <= 4000 or len(each) == 1 for each in held)
    assert len(held) < 12


@pytest.fixture
def damaged(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> tuple[str, Path]:
    """An archive of two days; its topic and the file of the first day."""
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    send(servers, topic, [Sent(day, second, value=b"%d" % second) for day in (DAY, after(1)) for second in range(5)])
    with night_on(spark, servers, tmp_path) as night:
        backfill.main(night, Program(RAW), [topic], [DAY, after(1)], 31, again=False)
    (file,) = (tmp_path / layout.run_unit(layout.ARCHIVE, topic, DAY, DAY)).glob("*.parquet")
    return topic, file


def test_audit_finds_every_kind_of_damage(
    spark: Any, cluster: LocalCluster, damaged: tuple[str, Path], tmp_path: Path
) -> None:
    topic, file = damaged
    original = file.read_bytes()
    table = parquet.ParquetFile(file).read()

    def refused(match: str) -> None:
        with (
            night_on(spark, cluster.bootstrap_servers, tmp_path) as night,
            pytest.raises(DifferencesError, match=match),
        ):
            audit.main(night, [topic], [DAY, after(1)])

    place = rf"{topic}-0 2013-06-15T00:00Z: "
    file.unlink()
    refused(place + "5 records of the log are not in the archive")
    file.write_bytes(original)
    file.with_name("part-00009-000.parquet").write_bytes(original)
    refused(place + "records 5 in the log, 10 in the archive")
    file.with_name("part-00009-000.parquet").unlink()
    parquet.write_table(table.slice(0, 4), file)
    refused(place + "records 5 in the log, 4 in the archive, last offset 4 in the log, 3 in the archive")
    changed = table.set_column(1, "value", [[b"0", b"1", b"2", b"3", b"X"]])
    parquet.write_table(changed, file)
    refused(place + "fingerprint [0-9a-f]{32} in the log, [0-9a-f]{32} in the archive")
    file.write_bytes(original[:-20])
    refused(rf"{topic} 2013-06-15: the archive cannot be read")
    file.write_bytes(original)
    with night_on(spark, cluster.bootstrap_servers, tmp_path) as night:
        audit.main(night, [topic], [DAY, after(1)])
        with pytest.raises(DifferencesError, match=f"{topic} 2013-06-17: is not archived"):
            audit.main(night, [topic], [after(2)])
    written = json.loads((tmp_path / layout.audit_file(topic, DAY)).read_bytes())
    assert (written["records"], written["differences"]) == (5, [])


def test_offsets_gone_by_retention(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    send(servers, topic, [Sent(DAY, second) for second in range(6)])
    with night_on(spark, servers, tmp_path / "kept") as night:
        archive.main(night, topic, DAY, RAW)
    before = tree(tmp_path / "kept")
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4})
    with night_on(spark, servers, tmp_path / "kept") as night:
        with pytest.raises(
            DataLossError, match=rf"is archived already, and the log has lost .*: {topic}-0 0 to 3; the archive"
        ):
            archive.main(night, topic, DAY, RAW)
        audit.main(night, [topic], [DAY])
    assert tree(tmp_path / "kept") == before
    with (
        night_on(spark, servers, tmp_path / "new") as night,
        pytest.raises(DataLossError, match=rf"{topic}-0 0 to 3; to go on .* --no-fail-on-data-loss"),
    ):
        archive.main(night, topic, DAY, RAW)
    told: list[str] = []
    with night_on(spark, servers, tmp_path / "new", told=told, fail_on_data_loss=False) as night:
        entry = archive.main(night, topic, DAY, RAW)
        audit.main(night, [topic], [DAY])
    assert entry.counts["records"] == 2
    assert entry.plan.lost == {0: (0, 4)}
    assert any("gone from the log by retention" in line for line in told)


def test_archived_days_are_not_replaced_by_what_retention_left(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    send(servers, topic, [Sent(DAY, second) for second in range(6)])
    with night_on(spark, servers, tmp_path) as night:
        archive.main(night, topic, DAY, RAW)
    before = tree(tmp_path)
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4})
    with (
        night_on(spark, servers, tmp_path, fail_on_data_loss=False) as night,
        pytest.raises(DataLossError, match="is archived already"),
    ):
        archive.main(night, topic, DAY, RAW)
    assert tree(tmp_path) == before


def test_topic_made_again(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    send(servers, topic, [Sent(DAY)])
    with night_on(spark, servers, tmp_path) as night:
        archive.main(night, topic, DAY, RAW)
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.delete_topics([topic])
        admin.create_topics([NewTopic(topic, 1, 1, topic_configs=FOREVER)])
    send(servers, topic, [Sent(DAY)])
    with night_on(spark, servers, tmp_path) as night:
        for day in (DAY, after(1)):
            with pytest.raises(DataLossError, match="was deleted and created again"):
                archive.main(night, topic, day, RAW)


def test_unknown_topic_and_unwritable_output(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    with night_on(spark, servers, tmp_path) as night, pytest.raises(UnknownTopicError, match="no topic no-such"):
        archive.main(night, "no-such", DAY, RAW)
    (tmp_path / "file").touch()
    with (
        pytest.raises(OutputError, match="the output folder must be writable"),
        night_on(spark, servers, tmp_path / "file") as night,
    ):
        archive.main(night, topic, DAY, RAW)


def test_interrupted_backfill_goes_on_with_its_plans(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Days out of order in the log; the lock is lost after the first chunk, records come, and the rest is as it would have been."""
    servers, topic = cluster.bootstrap_servers, make_topic(2, config=FOREVER)
    days = [after(number) for number in range(5)]
    send(servers, topic, [Sent(days[number * 3 % 5], number, number % 2) for number in range(40)])
    for name, days_per_job in (("whole", 2), ("one-by-one", 1)):
        with night_on(spark, servers, tmp_path / name) as night:
            backfill.main(night, Program(RAW, audits=False), [topic], days, days_per_job, again=False)
    assert tree(tmp_path / "one-by-one") == tree(tmp_path / "whole"), (
        "days that are read in one go are as if read alone"
    )
    assert ledger(tmp_path / "one-by-one") == ledger(tmp_path / "whole")

    class LockLost(Exception):
        pass

    with pytest.raises(LockLost), night_on(spark, servers, tmp_path / "parts") as night:
        done = Ledger(night.storage, archive.JOB)

        def guard() -> None:
            if len(done.all_done(topic)) == 3:
                raise LockLost

        object.__setattr__(night, "guard", guard)
        backfill.main(night, Program(RAW), [topic], days, 2, again=False)
    assert {len(places(archived(tmp_path / "parts", topic, day))) for day in days[:3]} == {8}
    assert not archived(tmp_path / "parts", topic, days[4])
    send(servers, topic, [Sent(days[4], 100)])
    told: list[str] = []
    with night_on(spark, servers, tmp_path / "parts", told=told) as night:
        backfill.main(night, Program(RAW), [topic], days, 2, again=False)
        audit.main(night, [topic], days)
    assert f"archive of {topic}: 4 of 5 days are done already" in told, "what was read for both days of a chunk is kept"
    assert tree(tmp_path / "parts") == tree(tmp_path / "whole")
    assert ledger(tmp_path / "parts") == ledger(tmp_path / "whole")
    with night_on(spark, servers, tmp_path / "parts") as night:
        backfill.main(night, Program(RAW), [topic], days, 31, again=True)
    assert tree(tmp_path / "parts") == tree(tmp_path / "whole")


def test_interrupted_night_goes_on_behind_its_portions(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """One large partition and small ones, some records undecodable; the lock is lost after two portions of three."""
    servers, topic = cluster.bootstrap_servers, make_topic(3, config=FOREVER)
    places_of = [0] * 30 + [1] * 3 + [2] * 7
    values = [b"{" if number % 9 == 0 else b'{"number": %d}' % number for number in range(40)]
    send(
        servers,
        topic,
        [Sent(DAY, n, p, value=value) for n, (p, value) in enumerate(zip(places_of, values, strict=True))],
    )
    formats = Formats(value=Format("json", "number int"))
    with night_on(spark, servers, tmp_path / "whole", rows_per_task=7) as night:
        entry = archive.main(night, topic, DAY, formats)
    assert entry.counts == {"records": 35, "late": 0, "dead_letters": 5} and set(entry.plan.record_bytes) == {0, 1, 2}

    class LockLost(Exception):
        pass

    def read_parts() -> list[str]:
        return sorted(each.name for each in (tmp_path / "parts" / layout.STAGING).glob("*/portions/*"))

    parts = {"rows_per_task": 7, "tasks_per_portion": 2}
    with pytest.raises(LockLost), night_on(spark, servers, tmp_path / "parts", **parts) as night:

        def guard() -> None:
            if len(read_parts()) == 2:
                raise LockLost

        object.__setattr__(night, "guard", guard)
        archive.main(night, topic, DAY, formats)
    assert read_parts() == ["00000.json", "00001.json"] and not tree(tmp_path / "parts")
    told: list[str] = []
    with night_on(spark, servers, tmp_path / "parts", told=told, **parts) as night:
        archive.main(night, topic, DAY, formats)
        audit.main(night, [topic], [DAY])
    assert f"archive of {topic} {DAY}: goes on behind 28 of 40 offsets that an earlier run has read" in told
    assert tree(tmp_path / "parts") == tree(tmp_path / "whole")
    assert ledger(tmp_path / "parts") == ledger(tmp_path / "whole")
    assert not (tmp_path / "parts" / layout.STAGING).exists()


def test_day_without_records(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    """Nothing is archived, and the ledger says so; what comes late is taken along like any other."""
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    with night_on(spark, servers, tmp_path) as night:
        assert archive.main(night, topic, DAY, JSON).counts == {"records": 0, "late": 0, "dead_letters": 0}
        audit.main(night, [topic], [DAY])
    assert tree(tmp_path) == {}
    send(servers, topic, [Sent(DAY, value=b'{"delay": 1}'), Sent(after(1), value=b"{")])
    with night_on(spark, servers, tmp_path) as night:
        assert archive.main(night, topic, after(1), JSON).counts == {"records": 0, "late": 1, "dead_letters": 1}
        audit.main(night, [topic], [DAY, after(1)])
    assert places(archived(tmp_path, topic, DAY)) == [(0, 0)]


def test_days_are_those_of_the_zone(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    hours = [3, 4, 23, 27, 28]
    send(servers, topic, [Sent(DAY, hour * 3600) for hour in hours])
    with night_on(spark, servers, tmp_path, zone="America/New_York") as night:
        archive.main(night, topic, DAY, RAW)
        audit.main(night, [topic], [DAY])
    assert places(archived(tmp_path, topic, DAY)) == [(0, 1), (0, 2), (0, 3)]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "America/St_Johns", "Pacific/Apia", "America/Sao_Paulo"])
def test_dates_are_those_of_java(spark: Any, zone: str) -> None:
    """Jobs date records by Python's zones; who asks Spark for the date of a timestamp must find that of the folder."""
    hours = [unix_ms(DAY) + hour * 3_600_000 for hour in range(-120_000, 120_000, 37)]
    around = [
        1_289_097_060_000,
        1_325_239_200_000,
        1_541_300_400_000,
    ]  # changes of clocks, the first at a minute past midnight
    times_ms = [*hours, *(change + second * 1000 for change in around for second in range(-5400, 5400, 30))]
    frame = spark.createDataFrame([(each,) for each in times_ms], "ms long").select(
        F.timestamp_millis("ms").alias("at")
    )
    shown = frame.select(F.to_date(F.from_utc_timestamp("at", zone)))
    found = [row[0].toordinal() - date(1970, 1, 1).toordinal() for row in shown.collect()]
    assert found == LocalDates(zone).find_days(np.array(times_ms, np.int64)).tolist()
