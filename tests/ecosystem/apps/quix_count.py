"""Counts the records of each key, in a state that is kept in a changelog topic: SERVERS SOURCE TARGET COUNT FOLDER."""

import sys

from quixstreams import Application, State

servers, source, target, count, folder = sys.argv[1:]
app = Application(
    broker_address=servers,
    consumer_group=f"counting-{source}",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    commit_interval=0.5,
    state_dir=folder,
    loglevel="WARNING",
)


def count_one(value: str, state: State) -> str:
    state.set("count", state.get("count", 0) + 1)
    return str(state.get("count"))


words = app.topic(source, key_deserializer="str", value_deserializer="str")
counts = app.topic(target, key_serializer="str", value_serializer="str")
app.dataframe(words).apply(count_one, stateful=True).to_topic(counts)
app.run(count=int(count), timeout=110)
