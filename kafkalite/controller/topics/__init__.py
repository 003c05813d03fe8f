"""Topics: validation, creation, added partitions, reassignment, deletion, and their znodes.

`api` uses `zk_admin_manager` and `topic_validation`; the event handlers use the rest.
"""
