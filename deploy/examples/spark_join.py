"""A stream joined with a table, in Spark: what `stream_table_join.py` does, for as many purchases as there are.

    pip install 'kafkalite[spark]'
    python stream_table_join.py customer c1 Ann Oslo && python stream_table_join.py purchase c1 12.50
    python spark_join.py --checkpoint /tmp/purchases    # joins what is new since the last time, and ends

The table is what the compacted topic has of each customer, read again for each portion of the stream, so it is as new as the purchases. The
checkpoint has the offsets that are done: a run that dies is continued by the next one, which writes its last portion again (at least once).
With `--follow` it goes on until Ctrl-C.
"""

from __future__ import annotations

import argparse

try:
    from needs import cluster_at, require_java
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F

    import spark_jobs
except ImportError as missing:
    raise SystemExit(f"{missing.name} is missing: pip install 'kafkalite[spark]'") from None

CUSTOMERS, PURCHASES, JOINED = "example-customers", "example-purchases", "example-purchases-by-spark"


def customers(spark: SparkSession, servers: str) -> DataFrame:
    """Columns key and customer (name, city): the latest row of each; a tombstone is none."""
    reader = spark.read.format("kafkalite").option("kafka.bootstrap.servers", servers)
    records = reader.option("subscribe", CUSTOMERS).option("startingOffsets", "earliest").load()
    # A null would be left out by max_by, and the row before it would live on.
    latest = records.groupBy("key").agg(F.max_by(F.struct("value"), "offset").alias("latest"))
    row = F.from_json(F.col("latest.value").cast("string"), "name string, city string")
    return latest.select("key", row.alias("customer")).where("customer is not null")


def purchases(spark: SparkSession, servers: str) -> DataFrame:
    """Columns key and purchase (sum), as a stream."""
    reader = spark.readStream.format("kafkalite").option("kafka.bootstrap.servers", servers)
    records = reader.option("subscribe", PURCHASES).option("startingOffsets", "earliest").load()
    return records.select("key", F.from_json(F.col("value").cast("string"), "sum double").alias("purchase"))


def join(spark: SparkSession, servers: str, checkpoint: str, *, follow: bool = False) -> None:
    """Write what purchases and customers become together to the topic `JOINED`."""

    def write(portion: DataFrame, number: int) -> None:
        joined = portion.join(customers(spark, servers), "key", "left")
        value = F.to_json(F.struct(F.col("purchase.sum").alias("sum"), F.col("customer")))
        writer = joined.select("key", value.alias("value")).write.format("kafkalite").mode("append")
        writer.option("kafka.bootstrap.servers", servers).option("topic", JOINED).save()

    stream = purchases(spark, servers).writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    query = (stream if follow else stream.trigger(availableNow=True)).start()
    query.awaitTermination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--checkpoint", required=True, help="a folder that is kept")
    parser.add_argument("--follow", action="store_true")
    given = parser.parse_args()
    require_java()
    with cluster_at(given.bootstrap_server, CUSTOMERS, PURCHASES, JOINED):
        session = SparkSession.builder.appName("purchases-with-customers").getOrCreate()
        spark_jobs.register(session)
        join(session, given.bootstrap_server, given.checkpoint, follow=given.follow)
        session.stop()
