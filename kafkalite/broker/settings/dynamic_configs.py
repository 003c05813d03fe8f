"""Configurations that live in ZooKeeper: read when needed, and taken over when /config/changes says that they changed.

`DynamicConfigs` reads the znodes of topics and brokers; `ConfigChanges` follows the notifications.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from kafkalite.broker.settings.change_notifications import ChangeNotifications
from kafkalite.clock import Clock
from kafkalite.config.broker import FORMAT_IS_FIXED, BrokerConfig, ConfigError, LiveConfig
from kafkalite.config.dynamic import BrokerSources
from kafkalite.config.keys import Effect, InvalidValue
from kafkalite.config.security_keys import is_secret
from kafkalite.config.topic import TOPIC_KEYS, TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.security.password_encoder import decode_password, encode_password
from zk import paths
from zk.announcements import change_and_announce
from zk.store import BadVersionError, Create, Delete, NodeExistsError, NoNodeError, NotEmptyError, Store, Write
from zk.znodes import ConfigChange, ConfigEntity, MalformedZnodeError

logger = logging.getLogger("kafkalite.broker.settings.dynamic_configs")

_READ_TOGETHER = 250
"""Configurations of topics that are read and made in one go: some milliseconds."""


class DynamicConfigs:
    """Reads and changes the configurations in ZooKeeper. Those of brokers are applied to `config`."""

    def __init__(self, store: Store, config: LiveConfig) -> None:
        self._store, self._config = store, config
        self.sources = BrokerSources(static=config.current.originals)
        self._warned: set[str] = set()

    @property
    def topic_defaults(self) -> TopicConfig:
        """Return the configuration of topics without overrides on this broker now."""
        return self._config.current.topic_defaults

    async def read(self, path: str) -> dict[str, str]:
        """Return the overrides in a configuration znode, empty if it is absent or unreadable (which is logged)."""
        try:
            data, _ = await self._store.read(path)
        except NoNodeError:
            return {}
        return _decode_overrides(path, data)

    async def change(
        self,
        entity_path: str,
        change: Callable[[Mapping[str, str]], dict[str, str]],
        check: Callable[[dict[str, str]], None],
        validate_only: bool,
    ) -> None:
        """Replace the overrides of an entity such as `topics/…` by `change(current)` if `check` takes them, and announce it.

        The znode of a client, user or ip without overrides is deleted, as Kafka does; topics and brokers keep an empty one.
        The write is conditional and repeated when somebody else wrote in between. Raises KafkaError from `change` and `check`.
        """
        path = paths.config(entity_path)
        notice = Create(paths.CONFIG_CHANGE_PREFIX, ConfigChange(entity_path).encode(), sequence=True)
        try:
            paths.check(path)
        except ValueError as problem:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"no entity can have this name: {problem}") from problem
        while True:
            current, version = await self._current(path)
            plain = self._decode(path, current)
            wanted = change(plain)
            check(wanted)
            wanted = self._encode(entity_path, wanted, plain, current)
            if validate_only:
                return
            try:
                await self._write(path, wanted, version, notice)
                return
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue

    def _encode(
        self, entity_path: str, wanted: dict[str, str], before: Mapping[str, str], kept: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the overrides as they are written: passwords encrypted (`DynamicBrokerConfig`), unchanged ones as they are in `kept`.

        Raises KafkaError INVALID_REQUEST, in Kafka's words.
        """
        kind, _, name = entity_path.partition("/")
        if kind != "brokers" or not any(map(is_secret, wanted)):
            return wanted
        resource = f"ConfigResource(type=BROKER, name='{name}')"
        refusal, secret = "", self._config.current.password_encoder_secret
        if name == paths.DEFAULT_ENTITY:
            refusal = "Password config can be defined only at broker level"
        elif secret is None:
            refusal = "Password encoder secret not configured"
        if refusal or secret is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid config value for resource {resource}: {refusal}")
        return {
            each: text
            if not is_secret(each)
            else kept[each]
            if before.get(each) == text
            else encode_password(text, secret)
            for each, text in wanted.items()
        }

    def _decode(self, path: str, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the overrides with passwords in the clear. One that cannot be decrypted is left out, and logged without its text."""
        config, found = self._config.current, dict(overrides)
        if not path.startswith(f"{paths.CONFIG_BROKERS}/"):
            return found
        for name in filter(is_secret, overrides):
            for secret in (config.password_encoder_secret, config.password_encoder_old_secret):
                if secret is not None:
                    try:
                        found[name] = decode_password(overrides[name], secret)
                        break
                    except ValueError:
                        continue
            else:
                logger.error("%s: %s cannot be decrypted with password.encoder.secret; going on without it", path, name)
                del found[name]
        return found

    async def _write(self, path: str, overrides: dict[str, str], version: int | None, notice: Create) -> None:
        """Replace the overrides in a znode that has this version, None where there is none, and announce it."""
        data = ConfigEntity(overrides).encode()
        if not overrides and not path.startswith((f"{paths.CONFIG_TOPICS}/", f"{paths.CONFIG_BROKERS}/")):
            await self._remove(path, version, notice)
        elif version is None:
            await change_and_announce(self._store, Create(path, data), notice)
        else:
            await change_and_announce(self._store, Write(path, data, version), notice)

    async def _remove(self, path: str, version: int | None, notice: Create) -> None:
        """Delete the znode of an entity without overrides, announce it, and delete what is above it and empty now."""
        if version is None:
            await self._store.create(notice.path, notice.data, sequence=True)
            return
        try:
            await change_and_announce(self._store, Delete(path, version), notice)
        except NotEmptyError:  # a user whose clients have overrides
            await change_and_announce(self._store, Write(path, ConfigEntity().encode(), version), notice)
            return
        parent = paths.parent(path)
        while parent.startswith(f"{paths.CONFIG_USERS}/"):
            overrides, parent_version = await self._current(parent)
            if overrides or parent_version is None:
                return
            try:
                await self._store.delete(parent, parent_version)
            except (NotEmptyError, BadVersionError, NoNodeError):
                return
            parent = paths.parent(parent)

    async def _current(self, path: str) -> tuple[dict[str, str], int | None]:
        """Return the overrides and the version of a znode, None if it is absent. Raises KafkaError if it cannot be read."""
        try:
            data, stat = await self._store.read(path)
        except NoNodeError:
            return {}, None
        try:
            return dict(ConfigEntity.decode(data).config), stat.version
        except MalformedZnodeError as problem:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{path} cannot be read: {problem}; mend or delete it"
            ) from problem

    async def topic(self, topic: str) -> TopicConfig:
        """Return a topic's configuration: its overrides over this broker's defaults, which are used alone if an override is bad."""
        return self.topic_config(topic, await self.read(paths.topic_config(topic)))

    async def topics(self, names: Sequence[str]) -> dict[str, TopicConfig]:
        """Return the configurations of topics as `topic` does, read by few requests."""
        configs: dict[str, TopicConfig] = {}
        for first in range(0, len(names), _READ_TOGETHER):
            some = names[first : first + _READ_TOGETHER]
            read_paths = [paths.topic_config(name) for name in some]
            znodes = await self._store.read_many(read_paths)
            for name, path, znode in zip(some, read_paths, znodes, strict=True):
                configs[name] = self.topic_config(name, {} if znode is None else _decode_overrides(path, znode[0]))
        return configs

    def topic_config(self, topic: str, overrides: Mapping[str, str]) -> TopicConfig:
        """Return the configuration of a topic with these overrides."""
        self._warn(topic, overrides)
        try:
            return TopicConfig.from_overrides(self.topic_defaults, overrides)
        except (KafkaError, InvalidValue) as problem:
            logger.error("topic %s: %s; its defaults are used", topic, problem)
            return self.topic_defaults

    def _warn(self, topic: str, overrides: Iterable[str]) -> None:
        """Warn of each key without effect once, if a topic has it."""
        for name in overrides:
            key = TOPIC_KEYS.get(name)
            is_fixed = name == "message.format.version" and not self.topic_defaults.message_format_acts
            if key is not None and (key.effect is Effect.NONE or is_fixed) and name not in self._warned:
                self._warned.add(name)
                reason = FORMAT_IS_FIXED if is_fixed else key.reason
                logger.warning("topic %s: %s has no effect: %s", topic, name, reason)

    async def all_topics(self) -> dict[str, TopicConfig]:
        """Return the configuration of every topic: logs must not be judged by the defaults until the controller names them."""
        try:
            names = await self._store.children(paths.CONFIG_TOPICS)
        except NoNodeError:
            return {}
        return await self.topics(names)

    async def load_broker(self, broker_id: int) -> None:
        """Apply the cluster's and the broker's own dynamic configuration (KIP-226); one that cannot work is logged and left out."""
        own = paths.broker_config(broker_id)
        self.sources = BrokerSources(
            static=self.sources.static,
            cluster_default=await self.read(paths.broker_config(None)),
            per_broker=self._decode(own, await self.read(own)),
        )
        try:
            config = BrokerConfig.from_properties(self.sources.effective())
        except ConfigError as problem:
            logger.error("dynamic broker configuration: %s; the old one stays", problem)
            return
        known = set(self._config.current.warnings())
        for warning in config.warnings():
            if warning not in known:
                logger.warning("dynamic broker configuration: %s", warning)
        self._config.replace(config)


def _decode_overrides(path: str, data: bytes) -> dict[str, str]:
    try:
        return dict(ConfigEntity.decode(data).config)
    except MalformedZnodeError as problem:
        logger.error("%s: %s; going on without it until it is mended or deleted", path, problem)
        return {}


class ConfigChanges(ChangeNotifications):
    """The notices in /config/changes. `changed(entity_type, entity_name)` is called for each."""

    def __init__(self, store: Store, clock: Clock, changed: Callable[[str, str], Awaitable[None]]) -> None:
        async def take(data: bytes) -> None:
            change = ConfigChange.decode(data)
            await changed(change.entity_type, change.entity_name)

        super().__init__(store, clock, paths.CONFIG_CHANGES, take)
