"""Who speaks, and how that is proven: principals, TLS, SASL. What may be done by whom is `kafkalite.broker.identity.authorizer`."""
