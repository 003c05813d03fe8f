"""Appending on behalf of producers: the fast path for small single batches, and what waits for replicas (acks=all).

The handler of Produce is `handlers.produce`. What a paused producer waits for: `fast_path` and `replication.append_pace`.
"""
