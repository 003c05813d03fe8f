"""`/consumers/<group>`: what groups of the time before Kafka kept offsets and members itself wrote about themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zk.znodes.fields import Fields, MalformedZnodeError

_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,19}")
_LIMIT: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class ConsumerOffset:
    """`/consumers/<group>/offsets/<topic>/<partition>`: the next record to be read, any number of 64 bits, as text."""

    offset: int

    def encode(self) -> bytes:
        return str(self.offset).encode()

    @classmethod
    def decode(cls, data: bytes) -> ConsumerOffset:
        """Raises MalformedZnodeError for what Java's `Long.parseLong` would refuse."""
        offset = int(data) if _NUMBER.fullmatch(data) else _LIMIT
        if not -_LIMIT <= offset < _LIMIT:
            raise MalformedZnodeError("consumer offset", f"{data[:80]!r} is no number of 64 bits")
        return cls(offset)


@dataclass(frozen=True, slots=True)
class ConsumerSubscription:
    """`/consumers/<group>/ids/<member>`: how many threads read a topic; with a pattern, the topic is a regular expression."""

    threads: Mapping[str, int]

    @classmethod
    def decode(cls, data: bytes) -> ConsumerSubscription:
        """Raises MalformedZnodeError when it is no JSON object of topics."""
        fields = Fields.parse("consumer", data)
        counts = fields.mapping("subscription")
        if not all(isinstance(count, int) for count in counts.values()):
            raise fields.refuse("subscription has a count that is no number")
        return cls(dict(counts))
