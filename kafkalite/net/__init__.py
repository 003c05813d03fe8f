"""What both ends of a connection need: `frames` cuts a stream of bytes into messages, `connection` is the side that asks,
`blocking_request` asks once without an event loop."""
