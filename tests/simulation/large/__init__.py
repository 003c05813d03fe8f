"""Runs of a hundred brokers in racks: everything is restarted, reassigned and elected, and racks are lost."""
