"""The demo's transform: flights and mean departure delay per carrier and origin, of a day's decoded records."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def mean_delays(records: DataFrame) -> DataFrame:
    """Return columns date, carrier, origin, flights, and mean_delay in minutes of those that left."""
    flights = records.where("decoded is not null").select("date", "decoded.*")
    return flights.groupBy("date", "carrier", "origin").agg(
        F.count("*").alias("flights"), F.round(F.avg("dep_delay"), 2).alias("mean_delay")
    )
