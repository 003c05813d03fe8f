"""The consumer: fetching, positions, truncation, ranges of records as columns; `sync` is the blocking twin."""
