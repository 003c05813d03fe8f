"""Client quotas in ZooKeeper: `/config/clients/c`, `/config/users/u`, `/config/users/u/clients/c`, `/config/ips/i`, names sanitized.

A name that is the literal `<default>` is written percent-encoded, because `<default>` itself is the znode of the defaults.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping

from kafkalite.broker.settings.quotas import DEFAULT, Name, QuotaEntity, quota_keys
from zk import paths
from zk.store import NoNodeError, Store

logger = logging.getLogger("kafkalite.broker.settings.quotas")

Read = Callable[[str], Awaitable[Mapping[str, str]]]
"""Gives the overrides in a configuration znode, empty ones when it is absent."""


def entity_path(entity: QuotaEntity) -> str:
    """Return the path below /config, as it stands in change notifications."""
    if entity.ip is not None:
        return f"ips/{paths.DEFAULT_ENTITY if entity.ip is DEFAULT else entity.ip}"
    if entity.user is None:
        return f"clients/{_znode_name(entity.client_id)}"
    path = f"users/{_znode_name(entity.user)}"
    return path if entity.client_id is None else f"{path}/clients/{_znode_name(entity.client_id)}"


def entity_of(entity_type: str, entity_name: str) -> QuotaEntity | None:
    """Return the entity that a change notification is about, None for one that has no quotas."""
    if entity_type == "clients":
        return QuotaEntity(client_id=_name(entity_name))
    if entity_type == "ips":
        return QuotaEntity(ip=_name(entity_name))
    if entity_type == "users":
        user, separator, client = entity_name.partition("/clients/")
        return QuotaEntity(_name(user), _name(client) if separator else None)
    return None


async def all_settings(store: Store, read: Read) -> dict[QuotaEntity, Mapping[str, str]]:
    """Return the settings of every entity that has a znode: its quotas, and of users their SCRAM credentials."""
    clients, users, ips = await asyncio.gather(
        *(_children(store, path) for path in (paths.CONFIG_CLIENTS, paths.CONFIG_USERS, paths.CONFIG_IPS))
    )
    of_users = await asyncio.gather(*(_children(store, paths.user_clients(user)) for user in users))
    entities = [QuotaEntity(_name(user)) for user in users]
    entities += [QuotaEntity(client_id=_name(client)) for client in clients]
    for user, of_user in zip(users, of_users, strict=True):
        entities += [QuotaEntity(_name(user), _name(client)) for client in of_user]
    entities += [QuotaEntity(ip=_name(ip)) for ip in ips]
    found = await asyncio.gather(*(settings_of(read, entity) for entity in entities))
    return dict(zip(entities, found, strict=True))


async def settings_of(read: Read, entity: QuotaEntity) -> Mapping[str, str]:
    """Return the settings of one entity, empty if it has none."""
    return await read(paths.config(entity_path(entity)))


async def all_quotas(store: Store, read: Read) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas of every entity that has any."""
    found = {entity: quotas_in(entity, settings) for entity, settings in (await all_settings(store, read)).items()}
    return {entity: quotas for entity, quotas in found.items() if quotas}


def quotas_in(entity: QuotaEntity, settings: Mapping[str, str]) -> dict[str, float]:
    """Return the quotas among an entity's settings; what cannot be a number is logged and left out."""
    quotas = {}
    for key, text in settings.items():
        if key in quota_keys(entity):
            try:
                value = float(text)
            except ValueError:
                value = math.nan
            if math.isnan(value):
                path = paths.config(entity_path(entity))
                logger.error("%s: %s is %r, which is no number; going on without it", path, key, text)
            else:
                quotas[key] = value
    return quotas


async def _children(store: Store, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNodeError:
        return []


def _znode_name(name: Name) -> str:
    if name is DEFAULT or name is None:
        return paths.DEFAULT_ENTITY
    return paths.sanitize_name(name)


def _name(znode_name: str) -> Name:
    return DEFAULT if znode_name == paths.DEFAULT_ENTITY else paths.desanitize(znode_name)
