"""`/delegation_token/tokens/<id>`: a delegation token without its secret, which follows from its id and the brokers' key (KIP-48)."""

from __future__ import annotations

from dataclasses import dataclass

from zk.znodes.fields import Fields, to_json


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """Principals as `Type:name`, times in ms since 1970. Versions 1 and 2 have no requester, who is the owner then; 3 is written."""

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
                "owner": self.owner,
                "tokenRequester": self.requester,
                "renewers": list(self.renewers),
                "issueTimestamp": self.issued_ms,
                "maxTimestamp": self.max_ms,
                "expiryTimestamp": self.expires_ms,
                "tokenId": self.token_id,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> DelegationToken:
        """MalformedZnodeError."""
        fields = Fields.parse("delegation token", data)
        fields.version(1, 3)
        owner = fields.text("owner")
        return cls(
            owner,
            fields.text("tokenRequester", owner),
            fields.texts("renewers"),
            fields.integer("issueTimestamp", bits=64),
            fields.integer("maxTimestamp", bits=64),
            fields.integer("expiryTimestamp", bits=64),
            fields.text("tokenId"),
        )
