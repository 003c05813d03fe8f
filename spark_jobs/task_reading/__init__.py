"""What the jobs do with records where these are read, in Spark's Python workers: dates and runs, and what an audit compares."""
