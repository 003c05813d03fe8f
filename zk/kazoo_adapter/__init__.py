"""The store port over kazoo: `kazoo_store` is made by everyone who talks to a real ensemble; the rest serves it."""
