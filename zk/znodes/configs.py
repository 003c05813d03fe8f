"""`/config/<type>/<entity>` and `/config/changes/config_change_N`: settings of topics, brokers, clients, users and ips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zk.paths import check
from zk.znodes.fields import Fields, to_json

_ENTITY_TYPES_OF_V1 = ("topics", "clients")


@dataclass(frozen=True, slots=True)
class ConfigEntity:
    """The overrides of one entity; every value is a string. Version 1."""

    config: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        return to_json({"version": 1, "config": dict(self.config)})

    @classmethod
    def decode(cls, data: bytes) -> ConfigEntity:
        """Empty data means no overrides. Raises MalformedZnodeError when it is no JSON or a value is no string."""
        if not data:
            return cls()
        fields = Fields.parse("config", data, is_secret=True)
        config = fields.mapping("config")
        for key, value in config.items():
            if not isinstance(value, str):
                raise fields.refuse(f"{key[:80]} is not a string")
        return cls(config)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The notice that an entity's config znode changed.

    `entity_path` is the path below `/config`, with sanitized names: `topics/t`, `brokers/<default>`,
    `users/u/clients/c`. Version 2 is written; version 1, of topics and clients only, is read.
    """

    entity_path: str

    @property
    def entity_type(self) -> str:
        """`topics`, `brokers`, `clients`, `users` or `ips`."""
        return self.entity_path.partition("/")[0]

    @property
    def entity_name(self) -> str:
        """Return the name after the type, as in the znode: one name, or `u/clients/c`."""
        return self.entity_path.partition("/")[2]

    def encode(self) -> bytes:
        return to_json({"version": 2, "entity_path": self.entity_path})

    @classmethod
    def decode(cls, data: bytes) -> ConfigChange:
        """Raises MalformedZnodeError when it is neither version 1 nor 2 or names no entity."""
        fields = Fields.parse("config change", data)
        if fields.version(1, 2) == 1:
            entity_type = fields.text("entity_type")
            if entity_type not in _ENTITY_TYPES_OF_V1:
                raise fields.refuse(f"entity_type {entity_type!r} is not one of version 1")
            entity_path = f"{entity_type}/{fields.text('entity_name')}"
        else:
            entity_path = fields.text("entity_path")
        try:
            check(f"/{entity_path}")
        except ValueError:
            raise fields.refuse(f"{entity_path[:80]!r} is not type/entity") from None
        if "/" not in entity_path:
            raise fields.refuse(f"{entity_path[:80]!r} is not type/entity")
        return cls(entity_path)
