"""States of partitions and replicas and how they change: elections, leadership znodes, and the requests that tell brokers.

Pure: a machine changes `cluster_state` and returns `steps`.
"""
