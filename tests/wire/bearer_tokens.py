"""An issuer of bearer tokens for tests: its key set, and tokens for alice."""

from __future__ import annotations

import json
import time
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from tests.wire.secured import USER

AUDIENCE: Final = "kafka"
_KEY: Final = ec.generate_private_key(ec.SECP256R1())
_PUBLIC: Final = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(_KEY.public_key()))
KEY_SET: Final = json.dumps({"keys": [_PUBLIC | {"kid": "one"}]})
"""What lies at sasl.oauthbearer.jwks.endpoint.url."""


def bearer_token(audience: str = AUDIENCE) -> str:
    """For the next ten minutes."""
    claims = {"sub": USER, "aud": audience, "exp": int(time.time()) + 600}
    return jwt.encode(claims, _KEY, "ES256", {"kid": "one"})
