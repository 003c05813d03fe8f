"""The store port in memory, for unit tests and the simulation, held to the contract tests of the real one."""
