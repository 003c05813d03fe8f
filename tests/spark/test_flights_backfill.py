"""Two months of flights through a topic and the backfill, with --long the whole year: the archive and the transform are what pandas
computes from the source.

The two months have what a year has: the end of summer time, the end of the year, and more than one job of a backfill.
"""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path
from typing import Any

import pandas
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deploy.examples.flights.publisher import publish
from deploy.examples.flights.records import departures_ms, load_flights
from kafkalite.client import NewTopic, SyncAdmin
from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch import layout
from spark_jobs.batch.formats import Format, Formats
from spark_jobs.jobs import backfill
from spark_jobs.jobs.nightly import Program
from spark_jobs.jobs.reprocess import Reprocessing
from tests.spark.nights import FOREVER, night_on

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

LAST = date(2014, 1, 1)
"""In UTC the last flights of 2013 leave on 1 January 2014."""

REPROCESSED = [date(2013, 11, 3), date(2013, 11, 4)]
FORMATS = Formats(
    Format("string"),
    Format(
        "msgpack",
        "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, "
        "arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, distance int, "
        "hour int, minute int, time_hour timestamp",
    ),
)


def mean_delays(records: DataFrame) -> DataFrame:
    """Flights and mean delay per carrier and origin."""
    flights = records.select("date", "decoded.*")
    return flights.groupBy("date", "carrier", "origin").agg(
        F.count("*").alias("flights"), F.avg("dep_delay").alias("mean_delay")
    )


@pytest.fixture(scope="module")
def flights(long: bool) -> Any:
    """The source, with the date of each row's departure in UTC."""
    table = load_flights()
    if not long:
        # The end of summer time, and the year's.
        begins, ends = (table["month"] == 11) & (table["day"] <= 10), (table["month"] == 12) & (table["day"] >= 28)
        table = table[begins | ends].reset_index(drop=True)
    departures = pandas.to_datetime(departures_ms(table), unit="ms", utc=True)
    return table.assign(departure=departures, date=departures.date)


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster, flights: Any) -> str:
    with SyncAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("flights", 6, 1, topic_configs=FOREVER)])
    source = flights.drop(columns=["departure", "date"])
    asyncio.run(publish(cluster.bootstrap_servers, "flights", source, lambda _: None, None))
    return "flights"


@pytest.fixture(scope="module")
def output(
    spark: Any, cluster: LocalCluster, topic: str, flights: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("backfilled")
    days = sorted(set(flights["date"]))
    assert days[-1] == LAST
    days_per_job = max(10, len(days) // 10)
    with night_on(spark, cluster.bootstrap_servers, folder) as night:
        entries = backfill.main(night, Program(FORMATS), [topic], days, days_per_job, again=False)
        wanted = Reprocessing("delays", f"{__name__}:mean_delays")
        program = Program(FORMATS, wanted, audits=False)
        backfill.main(night, program, [topic], REPROCESSED, days_per_job, again=False)
    assert len(entries) == len(days)
    return folder


def test_archive_is_the_source_to_the_row(output: Path, flights: Any, long: bool) -> None:
    found = []
    for folder in sorted((output / "archive" / "topic=flights").glob("date=*")):
        tables = [parquet.ParquetFile(file).read() for file in sorted(folder.rglob("*.parquet"))]
        for table in tables:
            frame = pandas.DataFrame(table.column("decoded").to_pylist())
            found.append(frame.assign(departure=table.column("timestamp").to_pylist(), date=folder.name[5:]))
    archived = pandas.concat(found, ignore_index=True)
    columns = [name for name in flights.columns if name != "date"]
    assert len(archived) == len(flights) == (336_776 if long else 12_528)

    def normal(frame: Any) -> Any:
        """Rows in one order and columns in one type, whatever pandas reads them as."""
        times = {
            name: pandas.to_datetime(frame[name], utc=True).dt.as_unit("ms") for name in ("departure", "time_hour")
        }
        texts = {name: frame[name].fillna("").astype(str) for name in ("carrier", "tailnum", "origin", "dest", "date")}
        numbers = {name: frame[name].astype("float64") for name in columns if name not in times and name not in texts}
        together = pandas.DataFrame({**texts, **times, **numbers})
        return together.sort_values(list(together.columns)).reset_index(drop=True)

    pandas.testing.assert_frame_equal(normal(archived), normal(flights), check_like=True)


def test_each_day_is_complete_by_itself(output: Path, flights: Any) -> None:
    """No record is late where all were in the log before the first run: each date has one run, its own."""
    runs = {
        (folder.parent.name, folder.name.removeprefix("run="))
        for folder in (output / "archive" / "topic=flights").glob("date=*/run=*")
    }
    assert runs == {(f"date={day}", str(day)) for day in set(flights["date"])}


def test_transform_is_what_pandas_computes(output: Path, flights: Any) -> None:
    for day in REPROCESSED:
        folder = output / layout.dated_unit(layout.reprocessed_kind("delays"), "flights", day)
        rows = [
            row for file in sorted(folder.glob("*.parquet")) for row in parquet.ParquetFile(file).read().to_pylist()
        ]
        found = {(row["carrier"], row["origin"], name): row[name] for row in rows for name in ("flights", "mean_delay")}
        groups = flights[flights["date"] == day].groupby(["carrier", "origin"])["dep_delay"]
        expected = {(*name, "flights"): len(delays) for name, delays in groups}
        expected |= {(*name, "mean_delay"): delays.mean() for name, delays in groups}
        assert found == pytest.approx(expected)
