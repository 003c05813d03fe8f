"""`kafkalite context list|show|use|set|delete`: names for clusters, and the current one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalite.cli.confirmation import confirm
from kafkalite.cli.context.file import (
    PROJECT_FILE,
    ContextError,
    check_name,
    parse,
    read,
    with_current,
    with_settings,
    without_context,
    write,
)
from kafkalite.cli.context.settings import (
    BOOTSTRAP_SERVERS,
    ZOOKEEPER_CONNECT,
    Setting,
    check_key,
    environment_settings,
    load_contexts,
    user_file_path,
    working_directory,
)
from kafkalite.cli.output import Exit, fail, note, output_option, write_rows
from kafkalite.security.secret_files import is_secret

if TYPE_CHECKING:
    from kafkalite.cli.context.settings import Contexts

_HIDDEN = "[hidden]"


@click.group()
def context() -> None:
    """Named clusters: settings that commands use when they are given no others.

    \b
    What wins over what, for each setting:
      1. options of the command         4. --context NAME
      2. -X key=value                   5. KAFKALITE_* in the environment
      3. --command-config FILE          6. the current context

    Contexts are kept in ~/.config/kafkalite/config.toml (or where KAFKALITE_CONFIG says), and in a project's kafkalite.toml, which is
    looked for in the current directory and above it, and wins. KAFKALITE_CONTEXT names the current context, too.
    """


_project_option = click.option(
    "--project", is_flag=True, help=f"In {PROJECT_FILE} of the current directory, instead of the user's file."
)
_dry_run_option = click.option("--dry-run", is_flag=True, help="Only print what the file would contain.")


@contextmanager
def _refuse_invalid(code: Exit = Exit.USAGE) -> Iterator[None]:
    """End the command for an invalid contexts file, or with `NOT_FOUND` for a missing context."""
    try:
        yield
    except ContextError as problem:
        fail(str(problem), code)


def _contexts(wanted: str | None = None) -> Contexts:
    with _refuse_invalid():
        return load_contexts(os.environ, working_directory(), wanted)


def _file(project: bool) -> Path:
    path = working_directory() / PROJECT_FILE if project else user_file_path(os.environ)
    if str(path).startswith("~"):
        fail("this user has no home directory; set KAFKALITE_CONFIG to a file", Exit.USAGE)
    return path


def _save(path: Path, text: str, dry_run: bool, done: str) -> None:
    if dry_run:
        click.echo(text, nl=False)
        note(f"{path} would be written")
        return
    write(path, text)
    note(done)


@context.command("list", short_help="List the contexts; the current one is marked.")
@output_option()
def list_(output: str) -> None:
    """List the contexts; the current one is marked."""
    found = _contexts()
    rows = []
    for name in found.names():
        file = found.file_of(name)
        settings = file.contexts[name]
        row = {"name": name, "current": name == found.name}
        row |= {"bootstrap_servers": settings.get(BOOTSTRAP_SERVERS)}
        rows.append({**row, "zookeeper_connect": settings.get(ZOOKEEPER_CONNECT), "file": str(file.path)})
    columns = ["name", "current", "bootstrap_servers", "zookeeper_connect"]
    write_rows(rows, output, columns=columns, wide=["file"], name="name")
    if not rows and output in ("table", "wide"):
        note(
            f"no contexts in {found.user.path}; make one with: kafkalite context set NAME {BOOTSTRAP_SERVERS}=HOST:PORT"
        )


@context.command()
@click.argument("name", required=False)
@click.option("--secrets", is_flag=True, help="Show passwords and the like.")
@output_option()
def show(name: str | None, secrets: bool, output: str) -> None:
    """Show the settings of a context, and where each comes from.

    Without NAME those that commands use now, from the environment and the current context.
    """
    found = _contexts(name)
    if name is not None:
        with _refuse_invalid(Exit.NOT_FOUND):
            found.file_of(name)
    with _refuse_invalid():
        settings: dict[str, Setting] = found.current_settings()
        if name is None:
            settings = {**settings, **environment_settings(os.environ)}
    rows = [
        {"key": key, "value": _HIDDEN if is_secret(key) and not secrets else setting.value, "source": setting.source}
        for key, setting in sorted(settings.items())
    ]
    write_rows(rows, output, columns=["key", "value", "source"], name="key")
    if not rows and output in ("table", "wide"):
        note("no context is current, and nothing is set in the environment")


@context.command()
@click.argument("name")
@_project_option
@_dry_run_option
def use(name: str, project: bool, dry_run: bool) -> None:
    """Make NAME the current context."""
    with _refuse_invalid(Exit.NOT_FOUND):
        _contexts().file_of(name)
    path = _file(project)
    with _refuse_invalid():
        _save(path, with_current(read(path), path, name), dry_run, f"{name} is the current context of {path}")
    now = _contexts()
    if not dry_run and now.name != name:
        note(f"here {now.name} is used nevertheless, because of {now.chosen_by}")


@context.command("set", short_help="Create a context, or change its settings.")
@click.argument("name")
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--unset", multiple=True, metavar="KEY", help="Remove a setting; may be repeated.")
@click.option("--use", "use_it", is_flag=True, help="Also make it the current context.")
@_project_option
@_dry_run_option
def set_(
    name: str, settings: tuple[str, ...], unset: tuple[str, ...], use_it: bool, project: bool, dry_run: bool
) -> None:
    """Create the context NAME, or change its settings; other settings stay.

    Keys are settings of clients by Kafka's names, such as bootstrap.servers, and zookeeper.connect.
    """
    from kafkalite.config.keys import ConfigError
    from kafkalite.config.properties import parse_overrides

    if not settings and not unset:
        raise click.UsageError("give settings as KEY=VALUE, or --unset KEY")
    path = _file(project)
    with _refuse_invalid():
        check_name(name)
        try:
            changes: dict[str, str | None] = {**parse_overrides(settings), **dict.fromkeys(unset)}
        except ConfigError as problem:
            raise click.UsageError(str(problem)) from None
        for key in changes:
            check_key(key)
        text = with_settings(read(path), path, name, changes)
        if use_it:
            text = with_current(text, path, name)
        _save(path, text, dry_run, f"context {name} is kept in {path}")


@context.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@_project_option
@_dry_run_option
def delete(name: str, yes: bool, project: bool, dry_run: bool) -> None:
    """Delete the context NAME."""
    path = _file(project)
    with _refuse_invalid():
        text = read(path)
        if name not in parse(text, path).contexts:
            fail(f"no context {name} in {path}", Exit.NOT_FOUND)
        if not dry_run:
            confirm(f"Delete the context {name} from {path}?", yes)
        _save(path, without_context(text, path, name), dry_run, f"deleted context {name} from {path}")
