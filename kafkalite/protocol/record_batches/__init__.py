"""Record batches of every magic: layout, compression, validation, conversion to older formats.

`records` has the layout; storage and broker use `produce_validation` before they append.
"""
