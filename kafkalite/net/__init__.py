"""Modules for both ends of a connection: `frames` cuts a stream of bytes into messages, `connection` is the side that asks,
`blocking_request` asks once without an event loop."""
