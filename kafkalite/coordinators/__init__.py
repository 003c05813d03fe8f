"""Coordinators: machines that keep their state in a partition of an internal topic, and the runtime that hosts them.

`contract` says what a machine is, `runtime` hosts machines on the partitions that this broker leads, `group` is the coordinator of
consumer groups. Nothing here knows the broker: it passes ports in.
"""
