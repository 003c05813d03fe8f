"""Connections of clients: accepting, TLS and SASL, frames, the order of responses, and the bounds of memory and time for all of them.

From outside, `server` and `listener_security` are used by the broker's wiring; requests leave through `requests.request_handler`.
"""
