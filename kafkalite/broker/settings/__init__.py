"""Settings that change while the broker runs: dynamic configurations (KIP-226), client quotas and their rates (KIP-13, 124, 599).

`quotas` has a quota's arithmetic, `rates` the sampled rate below it. Nothing here imports another room of the broker.
"""
