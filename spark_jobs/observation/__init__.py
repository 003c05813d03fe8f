"""What a run tells of itself: facts in the ledger, metrics for Prometheus, a page, lineage, hooks, and the schedule that starts it."""
