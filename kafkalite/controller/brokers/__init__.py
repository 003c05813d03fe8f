"""Brokers that start, stop, fail or lose a log directory, and what of the cluster's state follows.

Used by the controller's event handlers and its failover.
"""
