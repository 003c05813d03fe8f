"""Clusters as processes of this machine: what `kafkalite cluster up`, the demo, tests and benches share.

`contract` says what every cluster can do, `cluster` is one of processes. `relay`, `switchboard` and `link` are the proxies that cut its
connections.
"""
