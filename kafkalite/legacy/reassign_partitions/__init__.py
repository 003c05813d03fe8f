"""`kafka-reassign-partitions`; `tool` has its main function."""
