"""The pictures of the documentation, drawn of facts: tables that benchmarks wrote, and what the code says of itself."""
