"""`kafkalite migrate`: Apache Kafka's brokers replaced by kafkalite's on the same logs, one after the other, or the other way."""
