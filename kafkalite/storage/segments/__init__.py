"""One segment of a log and its indexes: records, offset index, time index, transaction index.

`log` and `cleaning` use all of it; other packages only read indexes through `inspection`.
"""
