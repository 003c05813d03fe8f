"""Topics: validation, creation, more partitions, reassignment, deletion, and their znodes.

`api` uses `admin_writes` and `topic_rules`; the event handlers use the rest.
"""
