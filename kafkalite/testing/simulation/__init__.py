"""Whole clusters in one process on virtual time, under one seed: loops, network, disks, brokers, and the trace of what happened."""
