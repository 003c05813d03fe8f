"""What commands and the console both find out about a cluster, with a client's means: nothing here prints or ends a program.

| File | What it is about |
|---|---|
| `cluster_info` | brokers with what they lead and hold, counts of partitions |
| `cluster_health` | a verdict for each thing that can be wrong with a cluster |
| `cluster_changes` | elections, ISR changes, brokers that come and go |
| `group_offsets` | how far groups are, and where their offsets would be moved |
| `record_lines` | records as JSON without loss |
| `acl_rows` | rules as plain values |
"""
