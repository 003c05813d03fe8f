"""`kafkalite mirror back`: records, and what administrators changed, go from the target into the source after a switch."""
