"""`kafka-configs`; `tool` has its main function."""
