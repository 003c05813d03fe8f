"""`kafkalite broker`: one broker in the foreground, from a Kafka `server.properties`."""

from __future__ import annotations

import gc
import logging
import os
import sys
from pathlib import Path

import click

from kafkalite.cli.output import fail, note
from kafkalite.standard_streams import tolerate_lost_output


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
def broker(config: Path | None, overrides: tuple[str, ...], log_level: str, timings: bool) -> None:
    """Run one broker until SIGTERM or SIGINT.

    Prints "[KafkaServer id=N] started" when it is ready. Exits with 0 after a clean stop, with 1 when it could not start or go on.
    """
    if config is None and not overrides:
        raise click.UsageError("give --config FILE, or settings with -X")
    tolerate_lost_output()
    gc.disable()
    from kafkalite.broker.process import run
    from kafkalite.config.broker import ConfigError, load_broker_config
    from kafkalite.config.properties import parse_overrides
    from kafkalite.security.secret_files import exposed_settings

    gc.freeze()  # nothing of what was imported is garbage
    gc.enable()
    # What no line of the broker's log shows need not be found out for each of them.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    try:
        settings = load_broker_config(config, parse_overrides(overrides))
        if config is not None and (told := exposed_settings(config, settings.originals)) is not None:
            note(told)
        status = run(settings, log_level, timings)
    except ConfigError as problem:
        fail(str(problem))
    # All is closed. To take a million objects apart, as an interpreter does at its end, would take longer than the stop did.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
