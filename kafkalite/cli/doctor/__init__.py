"""`kafkalite doctor`: one judge for each thing that can be wrong."""
