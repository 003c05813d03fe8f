"""Detection of dead brokers by evidence, before their ZooKeeper sessions time out.

`detector` decides, without I/O; `heartbeats` and `refusals` bring it what other brokers answer, `failure_detection` carries out what it
decides. From outside only `failure_detection` is used, and `evidence`, which has what brokers tell each other. `peer_sessions` keeps the
ZooKeeper sessions that other brokers hand over.
"""
