"""Brokers that start, stop, fail or lose a log directory, and the consequences for their partitions.

Used by the controller's event handlers and its failover.
"""
