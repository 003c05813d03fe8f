"""A broker: what serves requests, holds replicas and runs a controller component; `app` wires its parts together.

`server`, `connection` and `dispatch` take requests to `handlers`; `replicas` and `partition` keep replicas and their rules,
`replica_fetchers` and `leader_fetcher` follow leaders, `partition_reader` and `fetch_sessions` serve fetches; `metadata_cache` is what the
controller told; `coordinators` hosts groups; `observation` shows all of it.
"""
