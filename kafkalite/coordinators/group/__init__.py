"""The coordinator of consumer groups (classic protocol) on the partitions of `__consumer_offsets`.

`machine` has the groups of one partition; `joining`, `rebalance`, `syncing`, `leaving` decide about membership, `commits` about
offsets, `deletion` about deleted and expired groups and offsets; `description` serves administration, `offset_record` and
`group_record` are the formats.
"""
