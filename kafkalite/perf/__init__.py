"""Load on a cluster, measured: what `kafkalite perf` and the Kafka-compatible tools `kafka-producer-perf-test` and
`kafka-consumer-perf-test` share. Nothing here prints.
"""
