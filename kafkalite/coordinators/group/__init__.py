"""The coordinator of consumer groups (classic protocol) on the partitions of `__consumer_offsets`.

`machine` holds the groups of one partition; `joining`, `rebalance`, `syncing`, `leaving` decide about membership, `commits` and
`expiration` about offsets, `deletion` and `description` serve administration; `offset_record` and `group_record` are the formats.
"""
