"""Principals and what they may do: ACLs (KIP-11), SCRAM users (KIP-554), delegation tokens (KIP-48).

Handlers and `requests` use `authorizer`; authentication itself is in `connections.sasl_authenticator`.
"""
