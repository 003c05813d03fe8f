"""`kafka-configs`; `tool` is its start."""
