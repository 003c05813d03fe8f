"""Clusters as processes of this machine, for `kafkalite cluster up`, the demo, tests and benches.

`contract` has the operations of every cluster, `cluster` is one of processes. `relay`, `switchboard` and `link` are the proxies that cut
its connections.
"""
