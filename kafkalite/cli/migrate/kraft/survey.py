"""What the move to KRaft has to know of a cluster: brokers, controllers, and ZooKeeper while it is there. Reads only.

Each server is asked directly, because no other one tells its form, and controllers are no members of the cluster that brokers describe.
"""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafkalite import NAME, OWN_SETTINGS
from kafkalite.administration.broker_releases import Release, find_release
from kafkalite.cli.migrate.kraft.forms import Form, Role, judge_form
from kafkalite.errors import ErrorCode
from kafkalite.protocol.apis import ApiKey
from kafkalite.server_addresses import address_text
from zk import paths
from zk.subtree import list_children, read_if_there
from zk.znodes import ControllerSeat, KraftMigration

if TYPE_CHECKING:
    from kafkalite.client import Admin
    from kafkalite.net.connection import Connection
    from zk.store import Store

_BROKERS, _CONTROLLERS = 1, 2
"""Types of endpoints (KIP-919)."""
_BROKER_RESOURCE: Final = 4
_DEFAULT_SOURCE: Final = 5
METADATA_VERSION: Final = "metadata.version"
_TOPIC_KEYS: Final = ("segment.bytes",)


@dataclass(frozen=True, slots=True)
class Server:
    """A broker or a controller. `problem` says why it could not be asked: it has no form and no settings then."""

    id: int
    address: str
    role: Role
    form: Form | None = None
    release: Release | None = None
    settings: Mapping[str, str | None] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    """Names of the settings that are no defaults."""
    is_ours: bool = False
    """True for a broker of kafkalite."""
    cluster_id: str | None = None
    leader: int = -1
    """Of a controller: the leader of its quorum; -1 where it knows of none."""
    is_registered: bool = True
    """False for a controller that its quorum does not know: the quorum copies nothing before it does."""
    metadata_level: int = 0
    """The finalized level of metadata.version; 0 where there is none."""
    problem: str | None = None
    is_refused: bool = False
    """True if nothing listens at its address, which is what a stopped program on a running machine looks like."""

    @property
    def name(self) -> str:
        return f"{self.role} {self.id}"

    def value_of(self, name: str) -> str:
        """Return the value of a setting, empty where it has none, or does not tell it."""
        return self.settings.get(name) or ""


@dataclass(frozen=True, slots=True)
class ZooKeeperState:
    """What znodes say of the move. `seat` and `migration` are None where their znodes are absent."""

    cluster_id: str | None = None
    seat: ControllerSeat | None = None
    migration: KraftMigration | None = None
    brokers: tuple[int, ...] = ()
    acls: int = 0
    tokens: int = 0
    moving: tuple[str, ...] = ()
    deleting: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def is_copied(self) -> bool:
        """True if the quorum owns the cluster and has copied all of ZooKeeper's metadata."""
        has_seat = self.seat is not None and self.seat.is_of_kraft
        return has_seat and self.migration is not None and self.migration.metadata_offset > 0


@dataclass(frozen=True, slots=True)
class KraftSurvey:
    """What was found. `zookeeper` is None where it was not asked, since nothing depends on it any more."""

    cluster_id: str | None
    brokers: tuple[Server, ...]
    controllers: tuple[Server, ...]
    zookeeper: ZooKeeperState | None = None
    unhealthy: tuple[str, ...] = ()
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings of topics that Apache Kafka 4 may refuse."""

    @property
    def servers(self) -> tuple[Server, ...]:
        return (*self.brokers, *self.controllers)


async def ask_server(
    host: str, port: int, role: Role, security: Mapping[str, Any], timeout_s: float, number: int
) -> Server:
    """Return the server of id `number` by what it says of itself. `security` are options of `Connection.open`."""
    from kafkalite.net.connection import Connection

    address = address_text(host, port)
    try:
        connection = await Connection.open(host, port, client_id="kafkalite-migrate", timeout_s=timeout_s, **security)
        try:
            await connection.negotiate(timeout_s)
            return await _ask(connection, address, role, timeout_s, number)
        finally:
            connection.close()
    except (OSError, ValueError) as failed:
        reason = str(failed) or type(failed).__name__
        return Server(number, address, role, problem=reason, is_refused=is_refusal(failed.__cause__ or failed))


def is_refusal(failed: BaseException) -> bool:
    """True if every address that was tried refused the connection. asyncio tells of several addresses in one text."""
    if isinstance(failed, ConnectionRefusedError):
        return True
    numbers = re.findall(r"\[Errno (-?\d+)\]", str(failed)) if str(failed).startswith("Multiple exceptions:") else []
    return bool(numbers) and set(numbers) == {str(errno.ECONNREFUSED)}


async def _ask(connection: Connection, address: str, role: Role, timeout_s: float, number: int) -> Server:
    from kafkalite.protocol import messages

    described = await connection.request(
        messages.describe_cluster_request.DescribeClusterRequest(
            endpoint_type=_BROKERS if role is Role.BROKER else _CONTROLLERS
        ),
        1 if role is Role.CONTROLLER else connection.version_of(ApiKey.DESCRIBE_CLUSTER),
        timeout_s,
    )
    if described.error_code:
        raise ValueError(f"it is no {role}: {described.error_message or _name_code(described.error_code)}")
    answer = await _describe_settings(connection, number, timeout_s)
    if answer.error_code == ErrorCode.INVALID_REQUEST:
        raise ValueError(f"it is not {role} {number}")
    if answer.error_code:
        raise ValueError(f"its settings are refused: {answer.error_message or _name_code(answer.error_code)}")
    level = await _find_level(connection, timeout_s)
    return _server_of(number, address, role, connection, described, answer, level)


async def _describe_settings(connection: Connection, number: int, timeout_s: float) -> Any:
    from kafkalite.protocol import messages

    module = messages.describe_configs_request
    asked = module.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(number), configuration_keys=None
    )
    request = module.DescribeConfigsRequest(resources=[asked])
    return (await connection.request(request, connection.version_of(ApiKey.DESCRIBE_CONFIGS), timeout_s)).results[0]


async def _find_level(connection: Connection, timeout_s: float) -> int:
    """Return the finalized level of metadata.version."""
    from kafkalite.protocol import messages

    request = messages.api_versions_request.ApiVersionsRequest(client_software_name=NAME, client_software_version="0.1")
    found = await connection.request(request, 3, timeout_s)
    levels = {each.name: int(each.max_version_level) for each in found.finalized_features or ()}
    return levels.get(METADATA_VERSION, 0)


def _server_of(
    number: int, address: str, role: Role, connection: Connection, described: Any, answer: Any, level: int
) -> Server:
    versions = connection.versions
    settings = {each.name: each.value for each in answer.configs}
    return Server(
        number,
        address,
        role,
        judge_form(settings, versions.get(ApiKey.FETCH, (0, 0))[0], role),
        find_release(versions) if role is Role.BROKER else None,
        settings,
        frozenset(each.name for each in answer.configs if each.config_source != _DEFAULT_SOURCE),
        any(each.name.startswith(OWN_SETTINGS) and each.config_source == _DEFAULT_SOURCE for each in answer.configs),
        described.cluster_id,
        described.controller_id,
        role is Role.BROKER or number in {each.broker_id for each in described.brokers},
        level,
    )


def _name_code(code: int) -> str:
    return {int(each): each.name for each in ErrorCode}.get(code, f"error {code}")


async def survey_servers(
    admin: Admin, controllers: Sequence[tuple[int, str, int]], security: Mapping[str, Any], timeout_s: float
) -> KraftSurvey:
    """Return brokers, controllers (by id, host and port) and health. Raises ClientError when no broker answers."""
    from kafkalite.administration.cluster_health import check_cluster
    from kafkalite.client import ConfigResource

    described = await admin.describe_cluster()
    found = await asyncio.gather(
        *(ask_server(each.host, each.port, Role.BROKER, security, timeout_s, each.id) for each in described.brokers),
        *(ask_server(host, port, Role.CONTROLLER, security, timeout_s, number) for number, host, port in controllers),
    )
    verdicts = await check_cluster(admin)
    resources = [ConfigResource("topic", each) for each in await admin.list_topics(include_internal=True)]
    topics = await admin.describe_resource_configs(resources, keys=_TOPIC_KEYS)
    return KraftSurvey(
        described.cluster_id,
        tuple(sorted((each for each in found if each.role is Role.BROKER), key=lambda each: each.id)),
        tuple(sorted((each for each in found if each.role is Role.CONTROLLER), key=lambda each: each.id)),
        unhealthy=tuple(f"{each.check}: {', '.join(each.problems[:5])}" for each in verdicts if not each.healthy),
        topics={
            resource.name: {name: each.value or "" for name, each in entries.items() if not each.is_default}
            for resource, entries in topics.items()
        },
    )


async def survey_znodes(store: Store, chroot: str = "") -> ZooKeeperState:
    """Read what znodes say. Raises StoreError, ValueError for what is malformed in `/controller` or `/migration`."""
    from kafkalite.cli.migrate.survey import survey_metadata

    metadata = await survey_metadata(store, chroot)
    seat, migration = [await read_if_there(store, chroot + each) for each in (paths.CONTROLLER, paths.MIGRATION)]
    return ZooKeeperState(
        metadata.cluster_id,
        None if seat is None else ControllerSeat.decode(seat[0]),
        None if migration is None else KraftMigration.decode(migration[0]),
        tuple(sorted(int(each) for each in await list_children(store, chroot + paths.BROKER_IDS))),
        metadata.acls,
        metadata.tokens,
        metadata.moving,
        metadata.deleting,
        metadata.unreadable,
    )
