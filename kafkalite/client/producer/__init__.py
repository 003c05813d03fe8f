"""The producer: partitioner, accumulator, sender, the fate of records; `sync` is the blocking twin."""
