"""A broker: it serves requests, holds replicas, hosts coordinators and may be the controller.

`app` starts and stops the parts that `wiring` makes. `connections` and `requests` take requests to `handlers`, one module for each API;
`produce`, `fetch` and `replication` keep partitions, `coordination` hosts groups and transactions, `identity` and `settings` have
principals and dynamic configurations, `observation` shows all of it. `metadata_cache` is the cluster as the controller last announced it.
"""
