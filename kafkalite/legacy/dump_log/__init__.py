"""`kafka-dump-log`; `tool` is its start."""
