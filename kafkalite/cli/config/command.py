"""`kafkalite config describe|alter|set|append|subtract|delete`: settings of topics and brokers, and quotas of clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option
from kafkalite.cli.config.changes import change_row, quota_change_rows, quota_rows, setting_row
from kafkalite.cli.config.targets import Targets, target_options, targets_of
from kafkalite.cli.config.values import plain_setting
from kafkalite.cli.output import format_count, note, output_option, write_rows

if TYPE_CHECKING:
    from kafkalite.client import Admin, ConfigChange, ConfigEntry, ConfigOperation, ConfigResource, QuotaEntity

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_SETTING_COLUMNS = ("resource_type", "resource", "name", "value", "source")
_CHANGE_COLUMNS = ("resource_type", "resource", "operation", "name", "value", "before")
_QUOTA_COLUMNS = ("entity", "name", "value")
_QUOTA_CHANGE_COLUMNS = ("entity", "operation", "name", "value", "before")


@click.group()
def config() -> None:
    """Settings of topics and brokers, quotas of users, clients and addresses."""


@config.command(short_help="Show settings; those that are not defaults if none is named.")
@click.argument("names", nargs=-1)
@target_options
@click.option("--topics", "every_topic", is_flag=True, help="Every topic.")
@click.option("--brokers", "every_broker", is_flag=True, help="Every live broker.")
@click.option("--quotas", "every_quota", is_flag=True, help="All quotas.")
@click.option("-a", "--all", "everything", is_flag=True, help="Also settings that have their default value.")
@click.option("--documentation", is_flag=True, help="Also what each setting does.")
@bootstrap_option
@output_option()
def describe(
    names: tuple[str, ...],
    every_topic: bool,
    every_broker: bool,
    every_quota: bool,
    everything: bool,
    documentation: bool,
    output: str,
    **target_values: Any,
) -> None:
    """Show the settings NAMES, or those that do not have their default value; with -o wide also where else a value could come from.

    A quota is shown for exactly the users, clients or addresses that are named.
    """
    targets = targets_of(**target_values)
    settings = targets.has_resources or every_topic or every_broker
    if settings == (targets.has_entities or every_quota):
        raise click.UsageError("name topics or brokers, or else those whose quotas are wanted")
    if not settings:
        rows = quota_rows(ask_cluster(lambda admin: _quotas(admin, targets)), names)
        write_rows(rows, output, columns=_QUOTA_COLUMNS, name="name")
        return

    async def describe_resources(admin: Admin) -> Mapping[ConfigResource, Mapping[str, ConfigEntry]]:
        wanted = await _resources(admin, targets, every_topic, every_broker)
        keys = names or None
        return await admin.describe_resource_configs(wanted, keys=keys, documentation=documentation, synonyms=True)

    rows = [
        setting_row(resource, entry, wide=output == "wide")
        for resource, entries in ask_cluster(describe_resources).items()
        for _, entry in sorted(entries.items())
        if names or everything or not entry.is_default
    ]
    wide = ["read_only", "is_sensitive", "synonyms"]
    columns = [*_SETTING_COLUMNS, "documentation"] if documentation else _SETTING_COLUMNS
    write_rows(rows, output, columns=columns, wide=wide, name="name")


async def _resources(admin: Admin, targets: Targets, every_topic: bool, every_broker: bool) -> list[ConfigResource]:
    from kafkalite.client import ConfigResource

    found = targets.resources()
    if every_topic:
        found += [ConfigResource("topic", name) for name in await admin.list_topics(include_internal=True)]
    if every_broker:
        brokers = (await admin.describe_cluster()).brokers
        found += [ConfigResource("broker", str(broker.id)) for broker in brokers]
    return list(dict.fromkeys(found))


async def _quotas(admin: Admin, targets: Targets) -> list[Any]:
    """Return the quotas of the named entities, or of all when none is named."""
    found = await admin.describe_client_quotas()
    wanted = set(targets.entities())
    return [each for each in found if not wanted or each.entity in wanted]


def _change_options(function: Decorated) -> Decorated:
    for option in (
        output_option(),
        bootstrap_option,
        click.option("--dry-run", is_flag=True, help="Only check that it could be done, and show what would change."),
        target_options,
    ):
        function = option(function)
    return function


@config.command(short_help="Change several settings at once, all or none.")
@click.option("--set", "set_", multiple=True, metavar="KEY=VALUE", help="Give a setting a value.")
@click.option("--append", multiple=True, metavar="KEY=VALUE", help="Add to a setting that is a list.")
@click.option("--subtract", multiple=True, metavar="KEY=VALUE", help="Take from a setting that is a list.")
@click.option("--delete", multiple=True, metavar="KEY", help="Reset a setting to its default.")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings to be given values: lines of KEY=VALUE.",
)
@_change_options
def alter(
    set_: tuple[str, ...],
    append: tuple[str, ...],
    subtract: tuple[str, ...],
    delete: tuple[str, ...],
    file: Path | None,
    **rest: Any,
) -> None:
    """Change several settings at once: all changes of a topic or broker are made, or none.

    Shows what was before. Settings that are not named stay as they are.
    """
    _change(
        [
            *_with_values("set", (*_lines(file), *set_), "--set"),
            *_with_values("append", append, "--append"),
            *_with_values("subtract", subtract, "--subtract"),
            *_without_values(delete),
        ],
        **rest,
    )


@config.command("set", short_help="Set settings or quotas; show the former values.")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@_change_options
def set_(settings: tuple[str, ...], **rest: Any) -> None:
    """Give settings, or quotas, values; shows what was before. Times and sizes may have units: retention.ms=7d, segment.bytes=64MiB."""
    _change(_with_values("set", settings, "KEY=VALUE"), **rest)


@config.command(short_help="Add values to settings that are lists.")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@_change_options
def append(settings: tuple[str, ...], **rest: Any) -> None:
    """Add to settings that are lists; several values are separated by commas."""
    _change(_with_values("append", settings, "KEY=VALUE"), **rest)


@config.command(short_help="Remove values from settings that are lists.")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@_change_options
def subtract(settings: tuple[str, ...], **rest: Any) -> None:
    """Take from settings that are lists; several values are separated by commas."""
    _change(_with_values("subtract", settings, "KEY=VALUE"), **rest)


@config.command(short_help="Reset settings to their defaults; delete quotas.")
@click.argument("names", nargs=-1, required=True, metavar="KEY...")
@_change_options
def delete(names: tuple[str, ...], **rest: Any) -> None:
    """Reset settings to their defaults, or delete quotas."""
    _change(_without_values(names), **rest)


Changes = Sequence[tuple[str, "ConfigOperation", str | None]]
"""(name, operation, value) of each change."""


def _with_values(operation: ConfigOperation, texts: Sequence[str], hint: str) -> Changes:
    found: list[tuple[str, ConfigOperation, str | None]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r} is not key=value", param_hint=hint)
        found.append((name.strip(), operation, plain_setting(name.strip(), value, hint)))
    return found


def _without_values(names: Sequence[str]) -> Changes:
    return [(name, "delete", None) for name in names]


def _lines(file: Path | None) -> list[str]:
    """Return the settings in a properties file as KEY=VALUE."""
    if file is None:
        return []
    from kafkalite.config.keys import ConfigError
    from kafkalite.config.properties import read_properties

    try:
        return [f"{name}={value}" for name, value in read_properties(file).items()]
    except ConfigError as problem:
        raise click.BadParameter(str(problem), param_hint="--file") from None


def _change(changes: Changes, *, dry_run: bool, output: str, **target_values: Any) -> None:
    """Apply changes; shared by all commands that change settings."""
    targets = targets_of(**target_values)
    if not changes:
        raise click.UsageError("say what is to be changed")
    names = [name for name, _, _ in changes]
    if len(set(names)) < len(names):
        raise click.UsageError("a setting is named twice; change it once")
    if targets.has_entities:
        quotas = _quota_changes(targets, changes)
        rows = ask_cluster(lambda admin: _alter_quotas(admin, quotas, dry_run))
        write_rows(rows, output, columns=_QUOTA_CHANGE_COLUMNS, name="name")
    elif targets.has_resources:
        rows = ask_cluster(lambda admin: _alter_settings(admin, targets, changes, dry_run))
        write_rows(rows, output, columns=_CHANGE_COLUMNS, wide=["before_source"], name="name")
    else:
        raise click.UsageError("name topics, brokers, users, clients or addresses")
    note(f"{format_count(len(rows), 'change')} {'could be made' if dry_run else 'made'}")


def _quota_changes(targets: Targets, changes: Changes) -> dict[QuotaEntity, dict[str, float | None]]:
    quotas: dict[str, float | None] = {}
    for name, operation, value in changes:
        if operation not in ("set", "delete"):
            raise click.UsageError("a quota is no list; set it or delete it")
        try:
            quotas[name] = None if value is None else float(value)
        except ValueError:
            raise click.BadParameter(f"{name}={value}: a quota is a number") from None
    return dict.fromkeys(targets.entities(), quotas)


async def _alter_quotas(
    admin: Admin, changes: Mapping[QuotaEntity, Mapping[str, float | None]], dry_run: bool
) -> list[dict[str, Any]]:
    before = {each.entity: each.quotas for each in await admin.describe_client_quotas()}
    await admin.alter_client_quotas(changes, validate_only=dry_run)
    return quota_change_rows(changes, before)


async def _alter_settings(admin: Admin, targets: Targets, changes: Changes, dry_run: bool) -> list[dict[str, Any]]:
    from kafkalite.client import ConfigChange

    resources = targets.resources()
    wanted: list[ConfigChange] = [ConfigChange(*each) for each in changes]
    before = await admin.describe_resource_configs(resources, keys=[each.name for each in wanted])
    await admin.incremental_alter_configs(dict.fromkeys(resources, wanted), validate_only=dry_run)
    return [change_row(each, change, before[each].get(change.name)) for each in resources for change in wanted]
