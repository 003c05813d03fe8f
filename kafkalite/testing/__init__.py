"""For tests of what uses kafkalite, and of kafkalite itself: real clusters of local processes, and their free ports."""
