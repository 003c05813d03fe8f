"""Counts the records of each key in a table; a worker of faust."""

import os

import faust

SOURCE = os.environ["FAUST_SOURCE"]
app = faust.App(
    f"counting-{SOURCE}",
    broker=f"kafka://{os.environ['FAUST_SERVERS']}",
    store="memory://",
    topic_partitions=2,
    topic_disable_leader=True,
    broker_commit_interval=0.2,
    broker_session_timeout=4,
    broker_heartbeat_interval=1,
)
words = app.topic(SOURCE, key_type=str, value_type=str, key_serializer="raw", value_serializer="raw")
counts = app.topic(
    os.environ["FAUST_TARGET"], key_type=str, value_type=str, key_serializer="raw", value_serializer="raw"
)
table = app.Table("counts", default=int, partitions=2)


@app.agent(words)
async def count(stream):
    async for key, _ in stream.items():
        table[key] += 1
        await counts.send(key=key, value=str(table[key]))


if __name__ == "__main__":
    app.main()
