"""Principals and what they may do: ACLs (KIP-11), SCRAM users (KIP-554), delegation tokens (KIP-48).

SCRAM credentials are kept in the user's znode, beside the quotas: `security.scram` has keys and text, `user_credentials` the rules.
Handlers and `requests` use `authorizer`; authentication itself is in `connections.sasl_authenticator`.
"""
