"""The coordinator of consumer groups (classic protocol) on the partitions of `__consumer_offsets`.

`machine` holds the groups of one partition; `joining`, `rebalance`, `syncing`, `leaving` decide about membership, `commits` about
offsets, `deletion` about what goes, offsets that expire included; `description` serves administration, `offset_record` and `group_record`
are the formats.
"""
