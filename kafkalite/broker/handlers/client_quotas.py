"""DescribeClientQuotas (48), AlterClientQuotas (49): quotas of users, clients and ips, kept in ZooKeeper (KIP-546).

- Both 0 and 1 say the same; 1 is flexible. Answered by any broker, from the znodes, so a change shows before brokers obey it.
- The byte rates and connection_creation_rate are enforced; request_percentage and controller_mutation_rate are only kept.
- Not done: custom entity types, which Kafka does not take either.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from kafkalite.broker.identity.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.parts import HasDynamicConfigs, HasStore
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.broker.settings.quota_znodes import all_quotas, entity_path
from kafkalite.broker.settings.quotas import DEFAULT, Name, QuotaEntity, quota_text
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

USER, CLIENT_ID, IP = "user", "client-id", "ip"
_FIELDS: Final[Mapping[str, str]] = {USER: "user", CLIENT_ID: "client_id", IP: "ip"}
_SHORT_NAMES: Final[Mapping[str, str]] = {USER: "user", CLIENT_ID: "client", IP: "ip"}
_EXACT, _DEFAULT, _ANY = 0, 1, 2
_OPS_MAX: Final = 1000


class Parts(HasStore, HasDynamicConfigs, Protocol):
    """The parts of the broker that these handlers use."""


@dataclass(frozen=True, slots=True)
class _Component:
    """The condition of a filter on one part of the entity."""

    match_type: int
    match: str | None

    def accepts(self, name: Name) -> bool:
        if self.match_type == _EXACT:
            return name == self.match
        return name is DEFAULT if self.match_type == _DEFAULT else name is not None


async def describe_client_quotas(
    parts: Parts, request: messages.DescribeClientQuotasRequest, context: RequestContext
) -> messages.DescribeClientQuotasResponse:
    """Return the entities that the filter accepts, with their quotas."""
    m = messages.describe_client_quotas_response
    wanted = _filter(request.components, strict=request.strict)
    found = await all_quotas(parts.store, parts.dynamic_configs.read)
    entries = []
    pace = context.portions.pace()
    for entity, quotas in found.items():
        await pace.unit()
        if wanted(entity):
            names = [
                m.EntityData(entity_type=kind, entity_name=None if name is DEFAULT else name)
                for kind, field in _FIELDS.items()
                if (name := getattr(entity, field)) is not None
            ]
            values = [m.ValueData(key=key, value=value) for key, value in quotas.items()]
            entries.append(m.EntryData(entity=names, values=values))
    return m.DescribeClientQuotasResponse(entries=entries)


def _filter(
    components: list[messages.describe_client_quotas_request.ComponentData], *, strict: bool
) -> Callable[[QuotaEntity], bool]:
    """Return a predicate that is true for the entities that the filter accepts. KafkaError for an invalid filter."""
    wanted: dict[str, _Component] = {}
    for component in components:
        kind = component.entity_type
        if kind == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if kind not in _FIELDS:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
        if kind in wanted:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate {_SHORT_NAMES[kind]} filter component entity type")
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected match type: {component.match_type}")
        wanted[kind] = _Component(component.match_type, component.match)
    if IP in wanted and len(wanted) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with "
            "user or clientId filter component.",
        )

    def accepts(entity: QuotaEntity) -> bool:
        for kind, field in _FIELDS.items():
            name = getattr(entity, field)
            component = wanted.get(kind)
            if component is not None and not component.accepts(name):
                return False
            if component is None and strict and name is not None:
                return False
        return True

    return accepts


async def alter_client_quotas(
    parts: Parts, request: messages.AlterClientQuotasRequest, context: RequestContext
) -> messages.AlterClientQuotasResponse:
    """Set and remove single quotas of each entity; the outcome of each."""
    m = messages.alter_client_quotas_response
    entries = []
    pace = context.portions.pace()
    for asked in request.entries:
        await pace.unit(1 + len(asked.entity) + len(asked.ops))
        answer = m.EntryData(
            entity=[m.EntityData(entity_type=e.entity_type, entity_name=e.entity_name) for e in asked.entity],
            error_message=None,
        )
        try:
            await _alter(parts, asked, validate_only=request.validate_only)
        except KafkaError as problem:
            answer.error_code, answer.error_message = problem.code, problem.message
        entries.append(answer)
    return m.AlterClientQuotasResponse(entries=entries)


async def _alter(parts: Parts, asked: messages.alter_client_quotas_request.EntryData, *, validate_only: bool) -> None:
    if len(asked.ops) > _OPS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"More than {_OPS_MAX} quotas of one entity.")
    entity = _entity(asked.entity)
    if entity.ip is not None:
        await _require_address(entity.ip)

    def change(current: Mapping[str, str]) -> dict[str, str]:
        quotas = dict(current)
        for op in asked.ops:
            if op.remove:
                quotas.pop(op.key, None)
            else:
                quotas[op.key] = quota_text(entity, op.key, op.value)
        return quotas

    await parts.dynamic_configs.change(entity_path(entity), change, lambda quotas: None, validate_only)


def _entity(parts: list[messages.alter_client_quotas_request.EntityData]) -> QuotaEntity:
    """Return the entity of these parts. Raises KafkaError INVALID_REQUEST for parts that make none."""
    if not parts:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    names: dict[str, Name] = {}
    for part in parts:
        if part.entity_type not in _FIELDS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Empty {part.entity_type} not supported")
        names[_FIELDS[part.entity_type]] = DEFAULT if part.entity_name is None else part.entity_name
    if "ip" in names and len(names) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid quota entity combination, IP entity should not be used with user/client ID entity.",
        )
    return QuotaEntity(**names)


async def _require_address(ip: Name) -> None:
    """Raise KafkaError INVALID_REQUEST unless it is an address, or the name of a host that has one."""
    if not isinstance(ip, str):
        return
    try:
        ipaddress.ip_address(ip)
    except ValueError:
        try:
            await asyncio.get_running_loop().getaddrinfo(ip, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            message = f"{ip} is not a valid IP or resolvable host."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message) from None


APIS: Final = (
    serve_api(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        0,
        1,
        describe_client_quotas,
        Permission(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
    ),
    serve_api(
        ApiKey.ALTER_CLIENT_QUOTAS,
        0,
        1,
        alter_client_quotas,
        Permission(Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
        failure=FailedItems(),
    ),
)
