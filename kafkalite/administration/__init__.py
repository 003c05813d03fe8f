"""Shared by commands, Kafka-compatible tools and the console: nothing here prints or ends a program.

| File | Contents |
|---|---|
| `cluster_info` | brokers with the partitions that they lead and host, counts of partitions |
| `cluster_health` | a verdict for each check of a cluster |
| `cluster_changes` | elections, ISR changes, brokers that join and leave |
| `broker_releases` | the release of Apache Kafka whose protocol a broker speaks |
| `group_offsets` | committed offsets and lag of groups, and plans to reset them |
| `replica_throttles` | replication throttles of a reassignment (KIP-73) |
| `record_lines`, `stdin_lines` | records as JSON lines without loss, and lines of stdin |
| `acl_rows` | ACLs as plain values |
"""
