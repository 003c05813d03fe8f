"""`kafka-dump-log`; `tool` has its main function."""
