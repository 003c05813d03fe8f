"""`kafka-reassign-partitions`; `tool` is its start."""
