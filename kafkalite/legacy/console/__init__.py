"""`kafka-console-consumer` and `kafka-console-producer`."""
