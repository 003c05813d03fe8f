"""Administration of client quotas: of users, clients, both together, and addresses (KIP-546). A part of `Admin`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkalite.client.admin.calls import AdminCalls, ensure_count, raise_failures
from kafkalite.client.errors import raise_error
from kafkalite.client.plain_values import with_known_fields
from kafkalite.protocol import messages

ENTITY_TYPES: Final = ("user", "client-id", "ip")
_EXACT, _DEFAULT, _ANY = 0, 1, 2


@with_known_fields
@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Whom a quota is for: pairs of a type ("user", "client-id", "ip") and a name, None being the default of that type."""

    parts: tuple[tuple[str, str | None], ...]

    def __post_init__(self) -> None:
        for kind, _ in self.parts:
            if kind not in ENTITY_TYPES:
                raise ValueError(f"no entity type {kind!r}; there are {', '.join(ENTITY_TYPES)}")
        object.__setattr__(self, "parts", tuple(sorted(self.parts, key=lambda part: ENTITY_TYPES.index(part[0]))))

    def __str__(self) -> str:
        return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in self.parts)


@with_known_fields
@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """Accepts entities whose part `entity_type` has this name; None is the default, and `any_name` any that is named or default."""

    entity_type: str
    name: str | None = None
    any_name: bool = False


@with_known_fields
@dataclass(frozen=True, slots=True)
class ClientQuota:
    """The quotas of one entity: `consumer_byte_rate`, `producer_byte_rate` (bytes a second), `request_percentage`, …"""

    entity: QuotaEntity
    quotas: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values under the names of the fields, for JSON and tables."""
        return {
            "entity": [{"type": kind, "name": name} for kind, name in self.entity.parts],
            "quotas": dict(self.quotas),
        }


class QuotaAdmin(AdminCalls):
    """Reads and alters client quotas (KIP-546)."""

    async def describe_client_quotas(
        self, filters: Iterable[QuotaFilter] = (), *, strict: bool = False
    ) -> list[ClientQuota]:
        """Return the quotas of entities that all `filters` accept; with `strict` only of those without other parts. All by default."""
        m = messages.describe_client_quotas_request
        request = m.DescribeClientQuotasRequest(
            components=[
                m.ComponentData(
                    entity_type=each.entity_type,
                    match_type=_ANY if each.any_name else _DEFAULT if each.name is None else _EXACT,
                    match=None if each.any_name else each.name,
                )
                for each in filters
            ],
            strict=strict,
        )
        response = await self._ask(None, request, "describing client quotas")
        raise_error(response, "describing client quotas")
        found = [
            ClientQuota(
                QuotaEntity(tuple((each.entity_type, each.entity_name) for each in entry.entity)),
                {each.key: each.value for each in sorted(entry.values, key=lambda value: str(value.key))},
            )
            for entry in response.entries or ()
        ]
        return sorted(found, key=lambda quota: str(quota.entity))

    async def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """Set quotas of entities, or remove those that are None; with `validate_only` only check that it could be done.

        AdminError with INVALID_REQUEST, …, by the entities' text, for those that failed.
        """
        m = messages.alter_client_quotas_request
        request = m.AlterClientQuotasRequest(
            entries=[
                m.EntryData(
                    entity=[m.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts],
                    ops=[m.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
                )
                for entity, quotas in changes.items()
            ],
            validate_only=validate_only,
        )
        response = await self._ask(None, request, "changing client quotas")
        ensure_count(response.entries, len(changes), "changing client quotas")
        raise_failures("quotas of", zip(changes, response.entries, strict=True))
