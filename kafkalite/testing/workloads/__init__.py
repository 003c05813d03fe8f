"""Writers, readers, groups and observers that keep a cluster busy and record a history."""
