"""Coordinators: state machines whose state is stored in a partition of an internal topic, and the runtime that hosts them.

`contract` defines the machines, `runtime` hosts them on the partitions that this broker leads, `group` and `transaction` are the
coordinators of consumer groups and transactions. Nothing here imports the broker, which passes in ports.
"""
