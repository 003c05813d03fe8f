"""The actions of `kafka-configs` over a broker: describe and alter settings, quotas and SCRAM credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.legacy.command_line.failures import InvalidConfiguration, ToolError
from kafkalite.legacy.configs import options as tool
from kafkalite.legacy.java.text import double

if TYPE_CHECKING:
    from kafkalite.client.admin.configs import ConfigEntry, ConfigResourceType
    from kafkalite.client.admin.credentials import ScramDeletion, ScramUpsertion
    from kafkalite.client.admin.quotas import ClientQuota, QuotaEntity, QuotaFilter
    from kafkalite.legacy.cluster.admin_session import AdminSession
    from kafkalite.legacy.command_line.option_parser import Options

_NOT_IN_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"
_KEY: Final = re.compile(r"[a-zA-Z0-9._-]*")
_PLAIN_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,248}")
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")
_LEAST_ITERATIONS: Final = 4096
_QUOTAS: Final = ("consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage")
_IP_QUOTAS: Final = ("connection_creation_rate",)
_RESOURCES: Final[dict[str, ConfigResourceType]] = {
    "topics": "topic",
    "brokers": "broker",
    "broker-loggers": "broker_logger",
}
_DYNAMIC: Final = {"topics": "DYNAMIC_TOPIC_CONFIG", "brokers": "DYNAMIC_BROKER_CONFIG"}
_QUOTA_TYPES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
_SHOWN_TYPES: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


def added_configs(options: Options) -> dict[str, str]:
    """Return the settings of --add-config and of the file. Raises ToolError."""
    found: dict[str, str] = {}
    if options.has(tool.ADD_CONFIG_FILE):
        from kafkalite.legacy.cluster.client_settings import read_properties_file

        found.update(read_properties_file(options.value(tool.ADD_CONFIG_FILE)))
    if options.has(tool.ADD_CONFIG):
        items = re.split("," + _NOT_IN_BRACKETS, options.value(tool.ADD_CONFIG))
        while len(items) > 1 and not items[-1]:
            items.pop()
        pairs = [re.split(r"\s*=\s*" + _NOT_IN_BRACKETS, each) for each in items]
        if any(len(pair) != 2 for pair in pairs):
            raise ToolError(
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val".'
            )
        found.update({key.strip(): value.replace("[", "").replace("]", "").strip() for key, value in pairs})
    for key in found:
        if not _KEY.fullmatch(key):
            raise ToolError(f"Invalid character found for config key: {key}")
    return found


def deleted_configs(options: Options) -> list[str]:
    return [each.strip() for each in options.values(tool.DELETE_CONFIG)]


# altering


async def alter(session: AdminSession, options: Options) -> None:
    types, names = tool.entity_types(options), tool.entity_names(options)
    added, deleted = added_configs(options), deleted_configs(options)
    kind, name = types[0], names[0]
    if kind in _RESOURCES:
        await _alter_resource(session, kind, name, added, deleted)
    elif kind in ("users", "clients"):
        if _are_credentials(types, names, added, deleted):
            await _alter_credentials(session, names[0], added, deleted)
        else:
            await _alter_quotas(session, types, names, added, deleted)
    elif kind == "ips":
        unknown = [each for each in (*added, *deleted) if each not in _IP_QUOTAS]
        if unknown:
            raise ToolError(
                "Only connection quota configs can be added for 'ips' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
        await _alter_quotas(session, types, names, added, deleted)
    else:
        raise _unsupported_error(kind)
    if name:
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


async def _alter_resource(
    session: AdminSession, kind: str, name: str, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    from kafkalite.client.admin.configs import ConfigChange, ConfigResource

    old = {each.name: each for each in await _entries(session, kind, name, describe_all=False)}
    absent = [each for each in deleted if each not in old]
    if absent:
        raise InvalidConfiguration(f"Invalid config(s): {','.join(absent)}")
    if kind == "brokers":
        hidden = [each.name for each in old.values() if each.value is None and each.name not in {*added, *deleted}]
        if hidden:
            raise InvalidConfiguration(
                "All sensitive broker config entries must be specified for --alter, "
                f"missing entries: Set({', '.join(hidden)})"
            )
    changes = [ConfigChange(key, "set", value) for key, value in added.items() if key not in deleted]
    changes += [ConfigChange(key, "delete") for key in deleted]
    resource = ConfigResource(_RESOURCES[kind], name)
    await session.call(
        "incrementalAlterConfigs", lambda admin: admin.configs.incremental_alter_configs({resource: changes})
    )


def _are_credentials(
    types: Sequence[str], names: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]
) -> bool:
    """True if SCRAM credentials are altered, False for quotas. Raises ToolError for neither or both."""
    for what, keys in (("added", list(added)), ("deleted", list(deleted))):
        scram = [each for each in keys if each in _SCRAM]
        unknown = [each for each in keys if each not in _SCRAM and each not in _QUOTAS]
        shown = "Set" if what == "added" else "ArrayBuffer"
        if types[0] == "clients" or len(types) == 2:
            if unknown or scram:
                raise ToolError(
                    f"Only quota configs can be {what} for 'clients' using --bootstrap-server. "
                    f"Unexpected config names: {shown}({', '.join([*unknown, *scram])})"
                )
        elif unknown:
            raise ToolError(
                f"Only quota and SCRAM credential configs can be {what} for 'users' using --bootstrap-server. "
                f"Unexpected config names: {shown}({', '.join(unknown)})"
            )
    scram = [each for each in (*added, *deleted) if each in _SCRAM]
    if not scram:
        return False
    if "" in names:
        raise ToolError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using --bootstrap-server."
        )
    if len(scram) != len(added) + len(deleted):
        raise ToolError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
        )
    return True


def password_and_iterations(mechanism: str, given: str, form: re.Pattern[str] = _CREDENTIAL) -> tuple[str, int]:
    """Return the password and iterations of "iterations=N,password=…". Raises ToolError, also for fewer iterations than the mechanism
    demands.
    """
    match = form.fullmatch(given)
    if match is None:
        raise ToolError(f"Invalid credential property {mechanism.replace('-', '_')}={given}")
    if match[1] in ("", "-"):
        raise ToolError(f'For input string: "{match[1]}"')
    iterations = _LEAST_ITERATIONS if match[1] in (None, "-1") else int(match[1])
    if iterations < _LEAST_ITERATIONS:
        raise ToolError(
            f"Iterations {iterations} is less than the minimum {_LEAST_ITERATIONS} required for {mechanism}"
        )
    return match[2], iterations


async def _alter_credentials(
    session: AdminSession, user: str, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    from kafkalite.client.admin.credentials import ScramDeletion, ScramUpsertion

    changes: list[ScramUpsertion | ScramDeletion] = [ScramDeletion(user, mechanism) for mechanism in deleted]
    changes += [
        ScramUpsertion(user, mechanism, *password_and_iterations(mechanism, given))
        for mechanism, given in added.items()
    ]
    await session.call(
        "alterUserScramCredentials", lambda admin: admin.credentials.alter_user_scram_credentials(changes)
    )


async def _alter_quotas(
    session: AdminSession,
    types: Sequence[str],
    names: Sequence[str],
    added: Mapping[str, str],
    deleted: Sequence[str],
) -> None:
    from kafkalite.client.admin.quotas import QuotaEntity

    found = await _quotas(session, types, names)
    old = found[0].quotas if found else {}
    absent = [each for each in deleted if each not in old]
    if absent:
        raise InvalidConfiguration(f"Invalid config(s): {','.join(absent)}")
    entity = QuotaEntity(tuple((_QUOTA_TYPES[kind], name or None) for kind, name in zip(types, names, strict=True)))
    changes: dict[str, float | None] = {}
    for key, value in added.items():
        try:
            changes[key] = float(value)
        except ValueError:
            raise ToolError(f"Cannot parse quota configuration value for {key}: {value}") from None
    changes.update(dict.fromkeys(deleted))
    await session.call("alterClientQuotas", lambda admin: admin.quotas.alter_client_quotas({entity: changes}))


# describing


async def describe(session: AdminSession, options: Options) -> None:
    types, names = tool.entity_types(options), tool.entity_names(options)
    if types[0] in _QUOTA_TYPES:
        await _describe_quotas(session, types, names)
        return
    describe_all = options.has(tool.ALL)
    for each in names[:1] or await _all_names(session, types[0]):
        await _describe_resource(session, types[0], each, describe_all=describe_all)


async def _all_names(session: AdminSession, kind: str) -> list[str]:
    if kind == "topics":
        return await session.call("listTopics", lambda admin: admin.topics.list_topics(include_internal=True))
    if kind != "brokers":
        raise _unsupported_error(kind)
    cluster = await session.call("listNodes", lambda admin: admin.topics.describe_cluster())
    return [*(str(each.id) for each in cluster.brokers), ""]


async def _describe_resource(session: AdminSession, kind: str, name: str, *, describe_all: bool) -> None:
    if name:
        print(f"{'All' if describe_all else 'Dynamic'} configs for {kind[:-1]} {name} are:")
    else:
        print(f"Default configs for {kind} in the cluster are:")
    for each in await _entries(session, kind, name, describe_all=describe_all):
        synonyms = ", ".join(f"{known.source}:{known.name}={_format_value(known.value)}" for known in each.synonyms)
        print(
            f"  {each.name}={_format_value(each.value)} sensitive={str(each.is_sensitive).lower()} synonyms={{{synonyms}}}"
        )


def _format_value(value: str | None) -> str:
    return "null" if value is None else value


async def _entries(session: AdminSession, kind: str, name: str, *, describe_all: bool) -> list[ConfigEntry]:
    from kafkalite.client.admin.configs import ConfigResource

    if kind not in _RESOURCES:
        raise _unsupported_error(kind)
    if kind == "topics" and name:
        _check_topic_name(name)
    resource = ConfigResource(_RESOURCES[kind], name)
    found = await session.call(
        "describeConfigs", lambda admin: admin.configs.describe_resource_configs([resource], synonyms=True)
    )
    source = "DYNAMIC_DEFAULT_BROKER_CONFIG" if kind == "brokers" and not name else _DYNAMIC[kind]
    entries = sorted(found[resource].values(), key=lambda entry: entry.name)
    return [each for each in entries if describe_all or each.source == source]


def _check_topic_name(name: str) -> None:
    if _PLAIN_TOPIC_NAME.fullmatch(name):
        return  # without the import of the rules, which takes longer than all else
    from kafkalite.controller.topics.topic_validation import check_name
    from kafkalite.errors import KafkaError

    try:
        check_name(name)
    except KafkaError as problem:
        raise ToolError(problem.message, "org.apache.kafka.common.errors.InvalidTopicException") from None


async def _describe_quotas(session: AdminSession, types: Sequence[str], names: Sequence[str]) -> None:
    for found in await _quotas(session, types, names):
        values = ", ".join(f"{key}={double(value)}" for key, value in found.quotas.items())
        print(f"Quota configs for {_shown_entity(found.entity)} are {values}")
    if "clients" not in types and "ips" not in types and "" not in names:
        await _describe_credentials(session, names)


async def _describe_credentials(session: AdminSession, users: Sequence[str]) -> None:
    found = await session.call(
        "describeUserScramCredentials", lambda admin: admin.credentials.describe_user_scram_credentials(users)
    )
    for user, credentials in found.items():
        shown = ", ".join(f"{each.mechanism}=iterations={each.iterations}" for each in credentials)
        print(f"SCRAM credential configs for user-principal '{user}' are {shown}")


def _shown_entity(entity: QuotaEntity) -> str:
    return ", ".join(
        f"the default {_SHOWN_TYPES[kind]}" if name is None else f"{_SHOWN_TYPES[kind]} '{name}'"
        for kind, name in entity.parts
    )


async def _quotas(session: AdminSession, types: Sequence[str], names: Sequence[str]) -> list[ClientQuota]:
    if len(names) > len(types):
        raise ToolError("More entity names specified than entity types")
    filters = [_filter(kind, names[position] if position < len(names) else None) for position, kind in enumerate(types)]
    return await session.call(
        "describeClientQuotas", lambda admin: admin.quotas.describe_client_quotas(filters, strict=True)
    )


def _filter(kind: str, name: str | None) -> QuotaFilter:
    from kafkalite.client.admin.quotas import QuotaFilter

    return QuotaFilter(_QUOTA_TYPES[kind], name or None, any_name=name is None)


def _unsupported_error(kind: str) -> ToolError:
    return ToolError(f"Unsupported entity type: {kind}")
