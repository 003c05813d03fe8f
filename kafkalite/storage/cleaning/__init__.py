"""Compaction of a log: what is kept, the map of keys, and the process that rewrites segments.

`directories.cleaner` decides which log is compacted when; `log.segment_swap` puts the result in its place.
"""
