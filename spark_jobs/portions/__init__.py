"""A run's reading in portions, so that a crash loses the portion at work and not the night.

A portion is some consecutive tasks, read by one Spark job. Its files get their final names below the attempt's folder, and then its record
is written there, with its files and its counts:

    _staging/<attempt>/work.json               what the attempt does: its signature, and how its tasks are divided
    _staging/<attempt>/portions/00003.json     the record of a portion that is done
    _staging/<attempt>/units/<path>/part-…     files of all portions, numbered by the run's tasks

A run that finds a pending entry whose attempt has the same signature goes on behind the portions that are recorded; files without a
record are removed first. Tasks are the same however often a run is begun, so the result is that of a run that nothing has interrupted.
"""
