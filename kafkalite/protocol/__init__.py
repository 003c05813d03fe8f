"""Kafka's protocol as bytes and values, without I/O: message schemas and their codec, record batches, compression and checksums.

`apis` lists the APIs and versions, `messages` has their classes, `schemas` their layout by version, `record_batches` all that is inside of
`records` fields.
"""
