"""The settings with which a command connects to a cluster, and the source of each. The first source that has a key wins:

1. the options of the command (`--bootstrap-server`, `--zookeeper`, `--timeout`);
2. `-X key=value`;
3. `--command-config FILE`, a properties file as Apache Kafka's tools take it;
4. the context that `--context` names;
5. the environment: `KAFKALITE_BOOTSTRAP_SERVERS`, and so on for every setting, dots as underscores;
6. the context that `KAFKALITE_CONTEXT` names, else the current one of the project's file, else the current one of the user's file;
7. the defaults of the client.

A project's file is `kafkalite.toml` in the current directory or the nearest one above. A context that it shares with the user's file
(`KAFKALITE_CONFIG`, by default `~/.config/kafkalite/config.toml`) is taken from the project's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite import NAME, OWN_SETTINGS, OWN_VARIABLES
from kafkalite.cli.context.file import ContextError, ContextFile, find_project_file, parse, read
from kafkalite.security.secret_files import exposed_settings, is_secret
from kafkalite.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.cli.context.given import Given
    from kafkalite.client.options import ConnectionOptions

CLIENTS: Final = ("Admin", "Producer", "Consumer")
BOOTSTRAP_SERVERS: Final = "bootstrap.servers"
ZOOKEEPER_CONNECT: Final = "zookeeper.connect"
CONTEXT_VARIABLE: Final = "KAFKALITE_CONTEXT"
FILE_VARIABLE: Final = "KAFKALITE_CONFIG"
_ZOOKEEPER_VARIABLE: Final = "KAFKALITE_ZOOKEEPER"
_NOT_FROM_TEXT: Final = frozenset({"chance", "clock", "opener", "sasl_token", "ssl_context"}) | {
    f"{part}_{form}" for part in ("key", "value") for form in ("serializer", "deserializer")
}
"""Options of clients that no text can stand for, or that a command decides: commands write and read bytes."""
_SECURITY: Final = ("sasl.", "security.", "ssl.")


class Setting(NamedTuple):
    """A value, and its source for messages."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of both files: `of` finds one by name. `name` is the selected one, or None."""

    user: ContextFile
    project: ContextFile | None
    name: str | None
    chosen_by: str

    @property
    def files(self) -> list[ContextFile]:
        """Return the files, the one that wins first."""
        return [self.user] if self.project is None else [self.project, self.user]

    def names(self) -> list[str]:
        return sorted({name for file in self.files for name in file.contexts})

    def file_of(self, name: str) -> ContextFile:
        """Return the file of a context. Raises ContextError when no file has it."""
        for file in self.files:
            if name in file.contexts:
                return file
        where = " or ".join(str(file.path) for file in self.files)
        names = ", ".join(self.names())
        known = f"there are {names}" if names else f"there are none; `kafkalite context set {name} ...` makes it"
        raise ContextError(f"no context {name} in {where}; {known}{did_you_mean(name, self.names())}")

    def current_settings(self) -> dict[str, Setting]:
        """Return the settings of the selected context, {} without one. Raises ContextError when it does not exist."""
        if self.name is None:
            return {}
        try:
            file = self.file_of(self.name)
        except ContextError as problem:
            raise ContextError(f"{self.chosen_by}: {problem}") from None
        source = f"{file.path}: context {self.name}"
        return {key: Setting(value, source) for key, value in file.contexts[self.name].items()}


def user_file_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the user's contexts: KAFKALITE_CONFIG, else below XDG_CONFIG_HOME, else below ~/.config.

    For a user without a home the path begins with "~", where nothing is.
    """
    if given := environment.get(FILE_VARIABLE):
        return Path(os.path.expanduser(given))
    base = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base, NAME, "config.toml")


def working_directory() -> Path:
    """Return the current directory; the root where it was deleted while the program runs."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


def load_contexts(environment: Mapping[str, str], directory: Path, wanted: str | None = None) -> Contexts:
    """Read both files and choose: `wanted` (the option), the environment, the project's current one, the user's. ContextError."""
    user_path, project_path = user_file_path(environment), find_project_file(directory)
    try:
        user = parse(read(user_path), user_path)
    except ContextError as problem:
        if environment.get(FILE_VARIABLE):
            raise ContextError(f"{FILE_VARIABLE}: {problem}") from None
        raise
    project = None
    if project_path is not None and project_path != user_path:
        project = parse(read(project_path), project_path)
    choices = [(wanted, "--context"), (environment.get(CONTEXT_VARIABLE), CONTEXT_VARIABLE)]
    choices += [(file.current, f"{file.path}: current-context") for file in (project, user) if file is not None]
    name, chosen_by = next(((name, by) for name, by in choices if name), (None, ""))
    return Contexts(user, project, name, chosen_by)


def variable_of(key: str) -> str:
    """Return the environment variable of a setting."""
    if key == ZOOKEEPER_CONNECT:
        return _ZOOKEEPER_VARIABLE
    return f"{OWN_VARIABLES}{key.removeprefix(OWN_SETTINGS).replace('.', '_').upper()}"


def environment_settings(environment: Mapping[str, str], keys: Iterable[str] | None = None) -> dict[str, Setting]:
    """Return the settings in the environment, of `keys`, by default of all settings."""
    wanted = _all_keys() if keys is None else keys
    named = ((key, variable_of(key)) for key in wanted)
    return {key: Setting(environment[name], name) for key, name in named if environment.get(name)}


def gather(given: Given, environment: Mapping[str, str], directory: Path, keys: Iterable[str]) -> dict[str, Setting]:
    """Return the settings of layers 2 to 6, the winner of each key. `keys` are those that are read from the environment.

    Raises ContextError, and ConfigError for an invalid file or override.
    """
    from kafkalite.config.properties import parse_overrides, read_properties

    found: dict[str, Setting] = {}

    def add(layer: Mapping[str, Setting]) -> None:
        for key, setting in layer.items():
            found.setdefault(key, setting)

    add({key: Setting(value, "-X") for key, value in parse_overrides(given.overrides).items()})
    if given.command_config is not None:
        path = given.command_config
        add({key: Setting(value, str(path)) for key, value in read_properties(path, "--command-config").items()})
    contexts = load_contexts(environment, directory, given.context)
    if given.context is not None:
        add(contexts.current_settings())
    add(environment_settings(environment, keys))
    if given.context is None:
        add(contexts.current_settings())
    return found


@cache
def _keywords(client: str) -> frozenset[str]:
    """Return the options of a client that a text can stand for."""
    from kafkalite.client.options import option_names

    return frozenset(option_names(_options_of(client))) - _NOT_FROM_TEXT


def _options_of(client: str) -> type[ConnectionOptions]:
    import kafkalite.client

    options: type[ConnectionOptions] = getattr(kafkalite.client, f"{client}Options")
    return options


def _some_client_has(keyword: str) -> bool:
    return any(keyword in _keywords(client) for client in CLIENTS)


def _all_keys() -> list[str]:
    """Return the dotted names of all settings that a context may have."""
    of_clients = sorted({key for client in CLIENTS for key in setting_names(client)})
    return [ZOOKEEPER_CONNECT, *zookeeper_setting_names(), *of_clients]


@cache
def zookeeper_setting_names() -> tuple[str, ...]:
    """Return the settings of TLS and identity for ZooKeeper."""
    from kafkalite.config.zookeeper_keys import ZOOKEEPER_KEYS

    return tuple(ZOOKEEPER_KEYS)


def _is_of_zookeeper(key: str) -> bool:
    return key == ZOOKEEPER_CONNECT or (
        key.startswith(("zookeeper.", OWN_SETTINGS)) and key in zookeeper_setting_names()
    )


def setting_names(client: str) -> list[str]:
    """Return the dotted names of the settings of one of `CLIENTS`."""
    return sorted(each.replace("_", ".") for each in _keywords(client))


def check_key(key: str) -> None:
    """Raise ContextError for a setting that no client has."""
    if not _is_of_zookeeper(key) and not _some_client_has(key.replace(".", "_")):
        raise ContextError(_no_such_setting(key))


def _no_such_setting(key: str) -> str:
    return f"{key}: no client has a setting of this name{did_you_mean(key, _all_keys())}"


def exposed_files(settings: Mapping[str, Setting]) -> list[str]:
    """Return a sentence about each file with secrets that everybody on the machine can read."""
    sources = {setting.source.partition(": context ")[0] for key, setting in settings.items() if is_secret(key)}
    told = (exposed_settings(Path(source), ["password"]) for source in sorted(sources))
    return [each for each in told if each is not None]


def keyword_options(
    settings: Mapping[str, Setting], client: str, command_config: Path | None, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Return keyword arguments for a client from settings by dotted names; those that only other clients have are left out.

    A name that no client has is a ContextError, but in a `--command-config` file, which may be meant for other programs too, only if
    it is about security: such a setting must not silently do nothing. ContextError names source and key.
    """
    from kafkalite.client.options import options_from_config

    options: dict[str, Any] = {}
    for key, (value, source) in settings.items():
        keyword = key.replace(".", "_")
        if _is_of_zookeeper(key):
            continue
        if keyword in _keywords(client):
            try:
                options.update(options_from_config(_options_of(client), {key: value}))
            except ValueError as problem:
                raise ContextError(f"{source}: {problem}") from None
        elif not _some_client_has(keyword):
            if source != str(command_config) or key.startswith(_SECURITY):
                raise ContextError(f"{source}: {_no_such_setting(key)}")
            tell(f"{source}: {key} is not known and has no effect")
    return options
