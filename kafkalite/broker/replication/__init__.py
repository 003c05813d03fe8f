"""Replicas on this broker: leader and follower rules of a partition, fetching from leaders, ISR changes, moves between directories.

`partition` has the high watermark and min.insync.replicas, `follower_truncation` where a follower cuts its log. Handlers use `replicas`
and `partition`; the rest is made by the broker's wiring.
"""
