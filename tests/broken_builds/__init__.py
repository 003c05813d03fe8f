"""Bugs put into copies of the source on purpose, to see whether the fast tests catch them: `python -m tests.broken_builds`."""
