"""What the nightly jobs are made of: windows of time, plans, the ledger, publication, decoders, the lock."""
