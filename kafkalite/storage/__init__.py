"""Partition logs on disk: segments, their indexes and checkpoints, recovery, retention and compaction, in Kafka's file formats.

`log_store` holds the logs of a broker, `partition_log` is one of them; nothing here knows of connections or replication.
"""
