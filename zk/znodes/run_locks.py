"""Znodes of locks: who holds one. Ours, Kafka has none of them."""

from __future__ import annotations

from dataclasses import dataclass

from zk.znodes.fields import Fields, to_json


@dataclass(frozen=True, slots=True)
class RunLockHolder:
    """The process that holds a lock, since when (Unix ms) and what for. Version 1."""

    host: str
    pid: int
    since_ms: int
    purpose: str

    def encode(self) -> bytes:
        document = {"host": self.host, "pid": self.pid, "since_ms": self.since_ms, "purpose": self.purpose}
        return to_json({"version": 1, **document})

    @classmethod
    def decode(cls, data: bytes) -> RunLockHolder:
        """Raises MalformedZnodeError when something is missing."""
        fields = Fields.parse("run lock", data)
        fields.version(1)
        return cls(
            fields.text("host"), fields.integer("pid"), fields.integer("since_ms", bits=64), fields.text("purpose")
        )

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.purpose})"
