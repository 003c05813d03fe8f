"""`kafkalite produce`, `consume` and `record`: records as lines of text, and deletion of records."""
