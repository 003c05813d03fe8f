"""`kafkalite broker`: one broker in the foreground, from a Kafka `server.properties`."""

from __future__ import annotations

import gc
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalite.cli.output import Exit, fail, note
from kafkalite.extras import MissingExtraError, require_extra
from kafkalite.standard_streams import tolerate_lost_output

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig


@click.command()
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="A server.properties of Kafka.")
@click.option("-X", "overrides", multiple=True, metavar="KEY=VALUE", help="A setting that wins over the file's.")
@click.option(
    "--log-level",
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]),
    default="INFO",
    show_default=True,
    help="What goes to stderr.",
)
@click.option("--timings", is_flag=True, help="Tell on stderr how long each stage of start and stop takes.")
@click.option(
    "--guard",
    is_flag=True,
    help="Run it in a child process; when that is killed, end its ZooKeeper session by kafkalite.failover.detection.",
)
def broker(config: Path | None, overrides: tuple[str, ...], log_level: str, timings: bool, guard: bool) -> None:
    """Run one broker until SIGTERM or SIGINT.

    Prints "[KafkaServer id=N] started" when it is ready. Exits with 0 after a clean stop, with 1 when it could not start or go on.
    """
    if config is None and not overrides:
        raise click.UsageError("give --config FILE, or settings with -X")
    tolerate_lost_output()
    gc.disable()
    settings = _load_settings(config, overrides)
    if settings.kafkalite_http_listener is not None:
        try:
            require_extra("server", "kafkalite.http.listener")
        except MissingExtraError as problem:
            fail(str(problem), Exit.USAGE)
    if guard:
        _fork_guarded(settings)
    from kafkalite.broker.process import run
    from kafkalite.config.broker import ConfigError

    gc.freeze()  # nothing of what was imported is garbage
    gc.enable()
    # What no line of the broker's log shows need not be found out for each of them.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    try:
        status = run(settings, log_level, timings)
    except ConfigError as problem:
        fail(str(problem))
    # All is closed. To take a million objects apart, as an interpreter does at its end, would take longer than the stop did.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _load_settings(config: Path | None, overrides: tuple[str, ...]) -> BrokerConfig:
    """Return the settings of the broker; what is wrong with them ends the command."""
    from kafkalite.config.broker import ConfigError, load_broker_config
    from kafkalite.config.properties import parse_overrides
    from kafkalite.security.secret_files import exposed_settings

    try:
        settings = load_broker_config(config, parse_overrides(overrides))
        if config is not None and (told := exposed_settings(config, settings.originals)) is not None:
            note(told)
    except ConfigError as problem:
        fail(str(problem))
    return settings


def _fork_guarded(settings: BrokerConfig) -> None:
    """Go on in a child process, whose session this process ends if it is left behind."""
    from kafkalite.cli.broker_guard import fork_guarded

    if settings.kafkalite_failover_detection == "session":
        fork_guarded(lambda: None)
        return
    from kafkalite.local.dead_broker import end_session_of_dead_broker  # now, as it counts the milliseconds later

    def end_session() -> None:
        if (told := end_session_of_dead_broker(settings)) is not None:
            note(f"kafkalite broker --guard: {told}")

    fork_guarded(end_session)
