"""All logs of a broker in its log.dirs: opening, closing, moving between directories, and the cleaner that goes over them.

The broker uses `log_store` and `cleaner`.
"""
