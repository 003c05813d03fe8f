"""`/consumers/<group>/offsets/<topic>/<partition>`: how far a group of the time before Kafka kept offsets itself has read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from zk.znodes.fields import MalformedZnodeError

_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,19}")
_LIMIT: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class ConsumerOffset:
    """The next record to be read; any number of 64 bits, as text."""

    offset: int

    def encode(self) -> bytes:
        return str(self.offset).encode()

    @classmethod
    def decode(cls, data: bytes) -> ConsumerOffset:
        """MalformedZnodeError for what Java's `Long.parseLong` would refuse."""
        offset = int(data) if _NUMBER.fullmatch(data) else _LIMIT
        if not -_LIMIT <= offset < _LIMIT:
            raise MalformedZnodeError("consumer offset", f"{data[:80]!r} is no number of 64 bits")
        return cls(offset)
