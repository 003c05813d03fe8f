"""The rows that `kafkalite config` prints: settings, quotas, and changes of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.client import ClientQuota, ConfigChange, ConfigEntry, ConfigResource, QuotaEntity


def setting_row(resource: ConfigResource, entry: ConfigEntry, *, wide: bool) -> dict[str, Any]:
    """Return the row of a setting; with `wide` its synonyms as text."""
    row = {"resource_type": resource.type, "resource": resource.name or "all", **entry.to_dict()}
    if wide:
        row["synonyms"] = "; ".join(f"{each.source}:{each.name}={each.value}" for each in entry.synonyms)
    return row


def change_row(resource: ConfigResource, change: ConfigChange, before: ConfigEntry | None) -> dict[str, Any]:
    """Return the row of a change, with the present value and source of the setting. The value of a secret is not shown."""
    secret = before is not None and before.is_sensitive
    return {
        "resource_type": resource.type,
        "resource": resource.name or "all",
        "operation": change.operation,
        "name": change.name,
        "value": None if secret else change.value,
        "before": before.value if before else None,
        "before_source": before.source if before else None,
    }


def quota_rows(quotas: Iterable[ClientQuota], names: Iterable[str]) -> list[dict[str, Any]]:
    """Return a row for each quota, or for each of those in `names`."""
    wanted = set(names)
    return [
        {**_entity(quota.entity), "name": name, "value": value}
        for quota in quotas
        for name, value in quota.quotas.items()
        if not wanted or name in wanted
    ]


def quota_change_rows(
    changes: Mapping[QuotaEntity, Mapping[str, float | None]], before: Mapping[QuotaEntity, Mapping[str, float]]
) -> list[dict[str, Any]]:
    """Return a row for each quota that is set or deleted."""
    return [
        {
            **_entity(entity),
            "operation": "delete" if value is None else "set",
            "name": name,
            "value": value,
            "before": before.get(entity, {}).get(name),
        }
        for entity, quotas in changes.items()
        for name, value in quotas.items()
    ]


def _entity(entity: QuotaEntity) -> dict[str, Any]:
    """Return the columns of a quota's entity: `entity` for people, and its parts by name, "<default>" as in ZooKeeper, null where it has
    no such part.
    """
    names = {kind: "<default>" if name is None else name for kind, name in entity.parts}
    return {
        "entity": str(entity),
        "user": names.get("user"),
        "client_id": names.get("client-id"),
        "ip": names.get("ip"),
    }
