"""The leader's side of Fetch: reads of partitions, fetch sessions (KIP-227), long polls, down-conversion, replica selection (KIP-392).

`handlers.fetch` makes a context of a request (`fetch_contexts`: full or incremental, `paced_fetch` for very many partitions,
`fetch_down_conversion` for versions 0 to 3). The context has `partition_reader` read its partitions and becomes a `delayed_fetch` while
they have fewer than min.bytes. A follower's own fetch loop is `replication.leader_fetcher`.
"""
