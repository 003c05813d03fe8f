"""`kafka-consumer-groups`; `tool` is its start."""
