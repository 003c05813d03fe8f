"""Records in a schema registry's wire format: its client (which alone does I/O), schemas to types, values to columns."""
