"""Reading for consumers and followers: sessions (KIP-227), long polls, down-conversion, nearest replicas (KIP-392).

The handler of Fetch is `handlers.fetch`; it uses `fetches`, `large_fetch` and `old_fetch`. A follower's own fetch loop is
`replication.leader_fetcher`.
"""
