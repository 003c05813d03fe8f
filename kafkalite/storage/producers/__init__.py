"""State of idempotent and transactional producers in one log, and its snapshots on disk.

`log` owns the state; the broker calls `producer_state.check` before it appends.
"""
