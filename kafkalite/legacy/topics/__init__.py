"""`kafka-topics`; `tool` has its main function."""
