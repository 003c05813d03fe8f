"""Authentication: principals, TLS, SASL. Authorization is in `kafkalite.broker.identity.authorizer`."""
