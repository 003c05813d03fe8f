"""`kafka-consumer-groups`; `tool` has its main function."""
