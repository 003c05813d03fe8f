"""One partition's log: append, read, search, roll, retain, recover.

The broker uses `partition_log` and the errors of its parts; `directories` opens and closes logs.
"""
