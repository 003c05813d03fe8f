"""`kafka-configs --zookeeper`: SCRAM credentials, and settings of brokers that are down, for a cluster that has not started yet."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Final

from kafkalite.config.security_keys import is_secret
from kafkalite.legacy.cluster.zookeeper_store import live_brokers, read_config, tool_security, with_store, write_config
from kafkalite.legacy.command_line.failures import InvalidConfiguration, ToolError
from kafkalite.legacy.configs import options as tool
from kafkalite.legacy.configs.actions import added_configs, deleted_configs, password_and_iterations
from kafkalite.security.password_encoder import encode_password
from kafkalite.security.scram import ScramMechanism, credential_of, salted_password
from zk import paths
from zk.store import NoNodeError, Store

if TYPE_CHECKING:
    from kafkalite.legacy.command_line.option_parser import Options

_CREDENTIAL: Final = re.compile(r"(?:iterations=([0-9]*),)?password=(.*)")
_MECHANISMS: Final = {each.config_key: each for each in ScramMechanism}
_ENCODER: Final = "password.encoder."
_SALT_BYTES: Final = 32
_SHOWN_TYPES: Final = {"users": "user-principal"}


def run(options: Options) -> int:
    security = tool_security(options.value(tool.ZK_TLS_CONFIG_FILE))
    with_store(options.value(tool.ZOOKEEPER), lambda store: _serve(options, store), security)
    return 0


async def _serve(options: Options, store: Store) -> None:
    types, names = tool.entity_types(options), tool.entity_names(options)
    kind = types[0]
    if options.has(tool.ALTER):
        await _alter(options, store, kind, names[0])
    else:
        await _describe(store, kind, names[0] if names else None)


async def _alter(options: Options, store: Store, kind: str, name: str) -> None:
    added, deleted = added_configs(options), deleted_configs(options)
    shown = f"{{add: {_as_java_map(added)}, delete: List({', '.join(deleted)})}}"
    refusal = f"requirement failed: --bootstrap-server option must be specified to update {kind} configs: {shown}"
    if kind == "users":
        if any(each not in _MECHANISMS for each in (*added, *deleted)):
            raise ToolError(
                f"{refusal}. User configuration updates using ZooKeeper are only supported for SCRAM credential updates."
            )
        added = {mechanism: credential(mechanism, value) for mechanism, value in added.items()}
    else:
        await _check_down(store, name, refusal)
        added = encrypt_secrets(added)
    path = f"{kind}/{paths.sanitize_name(name) if name else paths.DEFAULT_ENTITY}"
    configs = await read_config(store, path)
    absent = [each for each in deleted if each not in configs]
    if absent:
        raise InvalidConfiguration(f"Invalid config(s): {','.join(absent)}")
    changed = {**configs, **added}
    await write_config(store, path, {key: value for key, value in changed.items() if key not in deleted})
    print(f"Completed updating config for entity: {_format_entity(kind, name)}.")


def _as_java_map(configs: dict[str, str]) -> str:
    """Return settings as `java.util.Properties` prints itself."""
    return "{" + ", ".join(f"{key}={value}" for key, value in configs.items()) + "}"


def encrypt_secrets(configs: dict[str, str]) -> dict[str, str]:
    """Return settings of a broker as ZooKeeper keeps them: passwords encrypted with the encoder's secret, without the encoder's settings.
    Raises ToolError.
    """
    kept = {key: value for key, value in configs.items() if not key.startswith(_ENCODER)}
    secret, passwords = configs.get(f"{_ENCODER}secret"), [key for key in kept if is_secret(key)]
    if secret is None:
        if passwords:
            raise ToolError(
                f"requirement failed: {_ENCODER}secret must be specified to update Set({', '.join(passwords)}). Other password encoder "
                "configs like cipher algorithm and iterations may also be specified to override the default encoding parameters. "
                "Password encoder configs will not be persisted in ZooKeeper."
            )
        return kept
    return kept | {key: encode_password(kept[key], secret) for key in passwords}


async def _check_down(store: Store, name: str, refusal: str) -> None:
    running = await live_brokers(store)
    reason = (
        "Broker configuration operations using ZooKeeper are only supported if the affected broker(s) are not running."
    )
    if name and int(name) in running:
        raise ToolError(f"{refusal} - broker {name} is running. {reason}")
    if not name and running:
        raise ToolError(f"{refusal} - {len(running)} brokers are running. {reason}")


def credential(mechanism: str, given: str) -> str:
    """Return a SCRAM credential as brokers store it, from "iterations=N,password=…". Raises ToolError."""
    password, iterations = password_and_iterations(mechanism.replace("-", "_"), given, _CREDENTIAL)
    kind, salt = _MECHANISMS[mechanism], secrets.token_bytes(_SALT_BYTES)
    return credential_of(kind, salted_password(kind, password, salt, iterations), salt, iterations).encode()


async def _describe(store: Store, kind: str, name: str | None) -> None:
    if kind == "brokers":
        await _check_down(
            store, name or "", "requirement failed: --bootstrap-server option must be specified to describe brokers"
        )
    if name is not None:
        names = [paths.sanitize_name(name) if name else paths.DEFAULT_ENTITY]
    else:
        try:
            names = sorted(await store.children(paths.config(kind)))
        except NoNodeError:
            names = []
    for each in names:
        configs = await read_config(store, f"{kind}/{each}")
        if configs or kind != "users" or name is not None:
            shown = ",".join(f"{key}={value}" for key, value in configs.items())
            print(
                f"Configs for {_format_entity(kind, '' if each == paths.DEFAULT_ENTITY else paths.desanitize(each))} are {shown}"
            )


def _format_entity(kind: str, name: str) -> str:
    shown = _SHOWN_TYPES.get(kind, kind)
    return f"{shown} '{name}'" if name else f"default {shown}"
