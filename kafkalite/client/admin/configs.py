"""Administration of settings: of topics, of single brokers and of all, read with their sources, changed one by one (KIP-226, KIP-339).

A broker's settings are asked of that broker, everything else of any. The resource "broker" with the empty name stands for the default of
all brokers. A part of `Admin`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from kafkalite.client.admin.calls import AdminCalls, all_of, ensure_count, raise_failures
from kafkalite.client.errors import AdminError, ClientError
from kafkalite.client.plain_values import PlainValues, with_known_fields
from kafkalite.protocol import messages

if TYPE_CHECKING:
    from kafkalite.protocol.messages import Request

ConfigResourceType = Literal["topic", "broker", "broker_logger"]
_RESOURCE_TYPES: Final[Mapping[ConfigResourceType, int]] = {"topic": 2, "broker": 4, "broker_logger": 8}
_CONFIG_SOURCES: Final[Mapping[int, str]] = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
}
ConfigOperation = Literal["set", "delete", "append", "subtract"]
_OPERATIONS: Final[Mapping[ConfigOperation, int]] = {"set": 0, "delete": 1, "append": 2, "subtract": 3}


class ConfigResource(NamedTuple):
    """What has settings: a "topic" by name, a "broker" by id, or with the empty name the default of all brokers.

    The settings of a "broker_logger", by its broker's id, are the levels of its logs (KIP-412); kafkalite's brokers have none.
    """

    type: ConfigResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}" if self.name else "all brokers"

    @property
    def broker(self) -> int | None:
        """Return the broker that alone can answer; None when any can. ValueError for a broker that is no number."""
        return int(self.name) if self.type in ("broker", "broker_logger") and self.name else None


@dataclass(frozen=True, slots=True)
class ConfigSynonym(PlainValues):
    """A place that could give a setting its value; the first of a setting's synonyms does."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry(PlainValues):
    """One setting; `value` is None when it is sensitive. `source` is Kafka's name of where it comes from."""

    name: str
    value: str | None
    source: str
    read_only: bool
    is_sensitive: bool
    documentation: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """True if the value is Kafka's default, which nothing overrides."""
        return self.source == "DEFAULT_CONFIG"


@with_known_fields
@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of one setting: "set" it, "delete" its override, "append" to a list or "subtract" from it."""

    name: str
    operation: ConfigOperation
    value: str | None = None

    def __post_init__(self) -> None:
        if self.operation not in _OPERATIONS:
            raise ValueError(f"no operation {self.operation!r}; there are {', '.join(_OPERATIONS)}")


class ConfigAdmin(AdminCalls):
    """Reads and alters the settings of topics and brokers (KIP-226, KIP-339)."""

    async def describe_configs(
        self,
        resource_type: ConfigResourceType,
        name: str,
        *,
        keys: Sequence[str] | None = None,
        documentation: bool = False,
        synonyms: bool = False,
    ) -> dict[str, ConfigEntry]:
        """Return the settings of one resource, all or only `keys`.

        UNKNOWN_TOPIC_OR_PARTITION, BROKER_NOT_AVAILABLE; ValueError when there is no such type of resource.
        """
        resource = ConfigResource(resource_type, str(name))
        try:
            found = await self.describe_resource_configs(
                [resource], keys=keys, documentation=documentation, synonyms=synonyms
            )
        except AdminError as problem:
            raise problem.failures[str(resource)] from None
        return found[resource]

    async def describe_resource_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        documentation: bool = False,
        synonyms: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return the settings of several resources by name. AdminError, by the resources' text, for those that failed."""
        m = messages.describe_configs_request
        wanted = [ConfigResource(*each) for each in resources]

        def request_for(asked: Sequence[ConfigResource]) -> Request[Any]:
            return m.DescribeConfigsRequest(
                resources=[
                    m.DescribeConfigsResource(
                        resource_type=_RESOURCE_TYPES[each.type],
                        resource_name=each.name,
                        configuration_keys=None if keys is None else list(keys),
                    )
                    for each in asked
                ],
                include_synonyms=synonyms,
                include_documentation=documentation,
            )

        answers = await self._ask_each(wanted, request_for, attrgetter("results"), "describing settings")
        return {each: {entry.name: _entry(entry) for entry in answers[each].configs} for each in wanted}

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Change single settings of resources and leave the others; with `validate_only` only check that it could be done.

        All changes of one resource are made, or none. AdminError with INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, …,
        by the resources' text, for those that failed.
        """
        m = messages.incremental_alter_configs_request
        wanted = {ConfigResource(*each): list(of_it) for each, of_it in changes.items()}

        def request_for(asked: Sequence[ConfigResource]) -> Request[Any]:
            return m.IncrementalAlterConfigsRequest(
                resources=[
                    m.AlterConfigsResource(
                        resource_type=_RESOURCE_TYPES[each.type],
                        resource_name=each.name,
                        configs=[
                            m.AlterableConfig(
                                name=change.name, config_operation=_OPERATIONS[change.operation], value=change.value
                            )
                            for change in wanted[each]
                        ],
                    )
                    for each in asked
                ],
                validate_only=validate_only,
            )

        await self._ask_each(wanted, request_for, attrgetter("responses"), "changing settings")

    async def _ask_each(
        self,
        resources: Iterable[ConfigResource],
        request_for: Callable[[Sequence[ConfigResource]], Request[Any]],
        answers_of: Callable[[Any], Sequence[Any]],
        what: str,
    ) -> dict[ConfigResource, Any]:
        """Return the answers for resources from the brokers that have them, all asked at once.

        AdminError, by the resources' text, for those that failed.
        """
        found: dict[ConfigResource, Any] = {}
        failures: dict[str, ClientError] = {}

        async def ask(broker: int | None, asked: Sequence[ConfigResource]) -> None:
            try:
                answers = answers_of(await self._ask(broker, request_for(asked), what))
                ensure_count(answers, len(asked), "settings of")
                raise_failures("settings of", zip(asked, answers, strict=True))
                found.update(zip(asked, answers, strict=True))
            except AdminError as problem:
                failures.update(problem.failures)
            except ClientError as problem:
                failures.update((str(each), problem) for each in asked)

        await all_of(ask(broker, asked) for broker, asked in _by_broker(resources).items())
        if failures:
            raise AdminError(failures)
        return found


def _by_broker(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    grouped: dict[int | None, list[ConfigResource]] = {}
    for each in resources:
        if each.type not in _RESOURCE_TYPES:
            raise ValueError(f"no resource type {each.type!r}; there are {', '.join(_RESOURCE_TYPES)}")
        grouped.setdefault(each.broker, []).append(each)
    return grouped


def _entry(answer: Any) -> ConfigEntry:
    return ConfigEntry(
        answer.name,
        answer.value,
        _CONFIG_SOURCES.get(answer.config_source, "UNKNOWN"),
        bool(answer.read_only),
        bool(answer.is_sensitive),
        answer.documentation,
        tuple(
            ConfigSynonym(each.name, each.value, _CONFIG_SOURCES.get(each.source, "UNKNOWN"))
            for each in answer.synonyms or ()
        ),
    )
