"""`/delegation_token/tokens/<id>`: a delegation token without its secret, which follows from its id and the brokers' key (KIP-48)."""

from __future__ import annotations

from dataclasses import dataclass

from zk import paths
from zk.znodes.fields import Fields, MalformedZnodeError, to_json


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """Principals as `Type:name`, times in ms since 1970. Versions 1 and 2 have no requester, who is the owner then; 3 is written.

    In the znode principals are sanitized (`User%3Aalice`), as Apache Kafka writes and reads them. Earlier versions of this program wrote
    them as they are; a colon, which no sanitized one has, tells those.
    """

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int
    token_id: str

    def encode(self) -> bytes:
        return to_json(
            {
                "version": 3,
                "owner": paths.sanitize(self.owner),
                "tokenRequester": paths.sanitize(self.requester),
                "renewers": list(map(paths.sanitize, self.renewers)),
                "issueTimestamp": self.issued_ms,
                "maxTimestamp": self.max_ms,
                "expiryTimestamp": self.expires_ms,
                "tokenId": self.token_id,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> DelegationToken:
        """Raises MalformedZnodeError."""
        fields = Fields.parse("delegation token", data)
        fields.version(1, 3)
        owner = fields.text("owner")
        return cls(
            _principal(owner),
            _principal(fields.text("tokenRequester", owner)),
            tuple(map(_principal, fields.texts("renewers"))),
            fields.integer("issueTimestamp", bits=64),
            fields.integer("maxTimestamp", bits=64),
            fields.integer("expiryTimestamp", bits=64),
            fields.text("tokenId"),
        )


def _principal(text: str) -> str:
    """Return the `Type:name` of what is in the znode. Raises MalformedZnodeError."""
    principal = text if ":" in text else paths.desanitize(text)
    if ":" not in principal:
        raise MalformedZnodeError("delegation token", f"{text[:80]!r} is no principal")
    return principal
