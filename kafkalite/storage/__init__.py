"""Partition logs on disk: segments, their indexes and checkpoints, recovery, retention and compaction, in Kafka's file formats.

`directories` holds the logs of a broker, `log` is one of them, `segments` its files, `producers` its idempotent producers, `cleaning` its
compaction. Nothing here knows of connections or replication.
"""
