"""`/kafka-acl/<type>/<name>`, `/kafka-acl-extended/prefixed/<type>/<name>` and the notices that they changed.

The words in them (`Allow`, `Read`, `TransactionalId`) mean something to those who use them only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from zk.znodes.fields import Fields, MalformedZnodeError, to_json


class AclWords(NamedTuple):
    """One entry, as it is written."""

    principal: str
    permission_type: str
    operation: str
    host: str


@dataclass(frozen=True, slots=True)
class ResourceAcls:
    """The entries of one resource pattern. Version 1."""

    acls: tuple[AclWords, ...] = ()

    def encode(self) -> bytes:
        entries = [
            {
                "principal": each.principal,
                "permissionType": each.permission_type,
                "host": each.host,
                "operation": each.operation,
            }
            for each in self.acls
        ]
        return to_json({"acls": entries, "version": 1})

    @classmethod
    def decode(cls, data: bytes) -> ResourceAcls:
        """Empty data means no entries. Raises MalformedZnodeError."""
        if not data:
            return cls()
        fields = Fields.parse("ACL", data)
        fields.version(1, 1)
        return cls(tuple(_words(each) for each in fields.objects("acls")))


def _words(entry: Fields) -> AclWords:
    return AclWords(entry.text("principal"), entry.text("permissionType"), entry.text("operation"), entry.text("host"))


@dataclass(frozen=True, slots=True)
class AclChange:
    """The notice that the entries of a resource pattern changed, with the words of Kafka's enums: `TOPIC`, `PREFIXED`.

    Those of literal patterns are `TOPIC:name`, in `/kafka-acl-changes`, all others JSON, in `/kafka-acl-extended-changes`.
    """

    resource_type: str
    name: str
    pattern_type: str = "LITERAL"

    def encode(self) -> bytes:
        if self.pattern_type == "LITERAL":
            return f"{self.resource_type}:{self.name}".encode()
        return to_json(
            {
                "version": 1,
                "resourceType": self.resource_type,
                "name": self.name,
                "patternType": self.pattern_type,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> AclChange:
        """Raises MalformedZnodeError when it is of neither form."""
        if data.lstrip()[:1] == b"{":
            fields = Fields.parse("ACL change", data)
            fields.version(1, 1)
            return cls(fields.text("resourceType"), fields.text("name"), fields.text("patternType"))
        try:
            resource_type, colon, name = data.decode().partition(":")
        except UnicodeDecodeError as problem:
            raise MalformedZnodeError("ACL change", "not UTF-8") from problem
        if not colon or not resource_type or not name:
            raise MalformedZnodeError("ACL change", f"{data[:80]!r} is not TYPE:name")
        return cls(resource_type, name)
