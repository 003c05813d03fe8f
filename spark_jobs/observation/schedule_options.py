"""The options of `schedule`, and how a description is made of them and of the options of the run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kafkalite import NAME
from spark_jobs.batch.failures import BadRequestError
from spark_jobs.batch.storage import local_folder
from spark_jobs.batch.window import parse_date, time_zone
from spark_jobs.command_options import options
from spark_jobs.observation.schedule import FORMS, Schedule

SCHEDULE = options(
    click.option("--as", "form", type=click.Choice((*FORMS, "all")), default="all", show_default=True),
    click.option(
        "--at",
        default="00:30",
        show_default=True,
        metavar="HH:MM",
        help="When, by the clocks of the run's --time-zone.",
    ),
    click.option(
        "--unit",
        default="kafkalite-nightly",
        show_default=True,
        help="Name of units, of the file for cron, of the DAG.",
    ),
    click.option("--user", default=NAME, show_default=True, help="Who runs it; not for Airflow."),
    click.option(
        "--program",
        default="/opt/kafkalite/bin/kafkalite",
        show_default=True,
        metavar="PATH",
        help="Where kafkalite is.",
    ),
    click.option(
        "--tries", type=click.IntRange(1, 100), default=3, show_default=True, help="Tries of a night; not for cron."
    ),
    click.option(
        "--retry-minutes", type=click.IntRange(1), default=10, show_default=True, help="Time between two tries."
    ),
    click.option("--limit-hours", type=click.IntRange(1), default=5, show_default=True, help="When a try is ended."),
)


def write_schedule(arguments: Sequence[str], run: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Return the text of one form, or of all. `run` are the values of the run's options, `arguments` their words. BadRequestError."""
    if any(word == "--date" or word.startswith("--date=") for word in arguments):
        raise BadRequestError("--date is not for a schedule: each night has the day that has ended")
    zone = time_zone(run["time_zone"])
    schedule = Schedule(
        name=given["unit"],
        at=given["at"],
        zone=run["time_zone"],
        program=given["program"],
        arguments=arguments,
        user=given["user"],
        tries=given["tries"],
        retry_minutes=given["retry_minutes"],
        limit_hours=given["limit_hours"],
        start=parse_date("today", time.time_ns() // 1_000_000, zone),
        writable=_writable(run),
    )
    schedule.check()
    wanted = FORMS.values() if given["form"] == "all" else [FORMS[given["form"]]]
    return "\n".join(write(schedule) for write in wanted)


def _writable(run: Mapping[str, Any]) -> list[str]:
    """Return the absolute local folders that the run writes to; relative ones are below the service's own."""
    found = []
    folder = local_folder(run["output"])
    if folder is not None and (Path(run["output"]).is_absolute() or run["output"].lower().startswith("file:")):
        found.append(str(folder))
    files = (run["metrics_file"], run["lineage"])
    found += [str(Path(path).parent) for path in files if path is not None and Path(path).is_absolute()]
    return list(dict.fromkeys(found))
