"""Appending on behalf of producers: the fast path for small single batches, and what waits for replicas (acks=all).

The handler of Produce is `handlers.produce`. What a paused producer waits for: `plain_produce` and `replication.append_pace`.
"""
