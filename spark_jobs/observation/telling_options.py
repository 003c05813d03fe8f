"""The options that say where a run tells of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from spark_jobs.command_options import options

TELLING = options(
    click.option(
        "--metrics-file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE.prom",
        help="Write the run's metrics to this file, in a folder of node_exporter's textfile collector.",
    ),
    click.option("--metrics-push", metavar="URL", help="Push the run's metrics to this Pushgateway."),
    click.option(
        "--lineage",
        metavar="URL|FILE",
        help="Send OpenLineage events to this endpoint, or append them to this file. [default: what OPENLINEAGE_URL says]",
    ),
    click.option(
        "--on-success",
        metavar="COMMAND",
        help="Run this command of the shell after exit code 0; it gets JSON on stdin.",
    ),
    click.option("--on-failure", metavar="COMMAND", help="The same after any other exit code."),
    click.option(
        "--hook-timeout",
        "hook_timeout_s",
        type=click.FloatRange(0, min_open=True),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="After this time such a command is killed.",
    ),
)


@dataclass(frozen=True, slots=True)
class Wishes:
    """The values of TELLING."""

    metrics_file: Path | None
    metrics_push: str | None
    lineage: str | None
    on_success: str | None
    on_failure: str | None
    hook_timeout_s: float


def take_wishes(given: Mapping[str, Any]) -> tuple[Wishes, dict[str, Any]]:
    """Return the values of TELLING, and the other options."""
    names = Wishes.__slots__
    return Wishes(**{name: given[name] for name in names}), {n: v for n, v in given.items() if n not in names}
