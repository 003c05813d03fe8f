"""Bugs put back into the running program on purpose: does the simulation find them? `python -m tests.simulation.bugs`."""
