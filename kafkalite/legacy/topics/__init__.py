"""`kafka-topics`; `tool` is its start."""
