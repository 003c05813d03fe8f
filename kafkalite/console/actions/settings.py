"""Settings of topics and brokers, changed one by one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite import NAME
from kafkalite.console.actions.plan import Plan, Scene, parse_settings
from kafkalite.console.parameters import BadRequestError

if TYPE_CHECKING:
    from kafkalite.client import ConfigEntry, ConfigResource

_HIDDEN: Final = "hidden"


async def plan_settings(scene: Scene) -> Plan:
    """Plan changes of the settings of `topic`, or of `broker` (empty for all brokers): `set` in lines of name=value, `delete` names that
    get their default back.
    """
    from kafkalite.client import ConfigChange

    asked = scene.asked
    resource, option = _resource(scene)
    wanted = [ConfigChange(name, "set", value) for name, value in parse_settings(asked.text("set")).items()]
    wanted += [ConfigChange(name, "delete") for name in dict.fromkeys(asked.text("delete").replace(",", " ").split())]
    names = [each.name for each in wanted]
    if not wanted:
        raise BadRequestError("nothing would change; set a setting, or give one its default back")
    if twice := {name for name in names if names.count(name) > 1}:
        raise BadRequestError(f"{min(twice)} is set and given its default back; do one of them")
    before = (await scene.admin.describe_resource_configs([resource], keys=names))[resource]
    for name in names:
        _require_changeable(resource, name, before.get(name))
    await scene.admin.incremental_alter_configs({resource: wanted}, validate_only=True)
    command = [NAME, "config", "alter", *option]
    rows: list[dict[str, Any]] = []
    for change in wanted:
        entry = before.get(change.name)
        is_secret = entry is not None and entry.is_sensitive
        value = _HIDDEN if is_secret and change.value is not None else change.value
        command += ["--set", f"{change.name}={value}"] if change.operation == "set" else ["--delete", change.name]
        old = _HIDDEN if is_secret else entry.value if entry else None
        rows.append({"setting": change.name, "value": old, "becomes": "the default" if value is None else value})
    return Plan(
        ("setting", "value", "becomes"),
        rows,
        (tuple(command),),
        partial(scene.admin.incremental_alter_configs, {resource: wanted}),
    )


def _resource(scene: Scene) -> tuple[ConfigResource, tuple[str, ...]]:
    """Return the resource that the request names, and the option that names it in a command line."""
    from kafkalite.client import ConfigResource

    if scene.asked.has("topic"):
        name = scene.name("topic", "the topic")
        return ConfigResource("topic", name), ("--topic", name)
    broker = scene.asked.text("broker").strip()
    if not broker:
        return ConfigResource("broker", ""), ("--broker-defaults",)
    if not broker.isdecimal() or len(broker) > 10:
        raise BadRequestError(f"{broker!r} is no broker's id")
    return ConfigResource("broker", broker), ("--broker", broker)


def _require_changeable(resource: ConfigResource, name: str, entry: ConfigEntry | None) -> None:
    """Raise BadRequestError for a setting that only the broker's file has."""
    if resource.type == "broker" and resource.name and entry is not None and entry.read_only:
        raise BadRequestError(f"{name} cannot be changed while the broker runs; change it in its file and restart it")
