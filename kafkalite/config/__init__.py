"""Settings: their tables, how they are read, and which of several sources wins."""
