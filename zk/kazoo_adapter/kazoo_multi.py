"""A transaction in the form that kazoo's connection sends, encoded and decoded by `zk.protocol`.

kazoo's own makes an object of each operation, normalizes its path again and builds its bytes piece by piece. That is a third of what a
controller pays for each state of a partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kazoo.client import KazooClient

from zk.kazoo_adapter.kazoo_bridge import Answer
from zk.protocol import requests
from zk.security.znode_acls import ZnodeAcl
from zk.store import Operation


@dataclass(frozen=True, slots=True)
class Multi:
    """Operations, each with its path in ZooKeeper and the ACL of a Create."""

    operations: Sequence[tuple[Operation, str, Sequence[ZnodeAcl] | None]]

    type: ClassVar[int] = int(requests.Code.MULTI)

    def send(self, client: KazooClient) -> Answer:
        """Send the request and return its answer: a path, Stat or None for each operation, or ResultError for all of them."""
        answer: Answer = client.handler.async_result()
        client._call(self, answer)
        return answer

    def serialize(self) -> bytes:
        """Return the bytes of the request. Called on kazoo's thread."""
        return requests.multi(self.operations).body

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> list[Any]:
        """Return the results in a response, from `offset` on. Called on kazoo's thread."""
        return requests.decode_results(answer, offset)
