"""A command that is watched: however it ends, what the user asked for is told. What cannot be told changes nothing in the run's result."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from spark_jobs.batch.failures import Exit
from spark_jobs.observation.telling_options import Wishes, take_wishes

if TYPE_CHECKING:
    from spark_jobs.observation.run_summary import RunSummary

Command = Callable[..., None]


def watch_run(command: str) -> Callable[[Command], Command]:
    """Give the function an option `journal`, and tell what became of the run when it ends. Options of TELLING are not handed on."""

    def decorate(function: Command) -> Command:
        @wraps(function)
        def run(**given: Any) -> None:
            from spark_jobs.observation.journal import Journal

            wishes, options = take_wishes(given)
            journal, started_ms = Journal(), _now_ms()

            def summary(code: int, problem: str) -> RunSummary:
                from spark_jobs.observation.run_summary import RunSummary

                return RunSummary(
                    command,
                    _output_name(options["output"]),
                    options["topics"],
                    started_ms,
                    _now_ms(),
                    code,
                    problem,
                    journal.ready_ms,
                    journal.entries,
                    journal.audits,
                    journal.pages[-1] if journal.pages else None,
                )

            try:
                function(**options, journal=journal)
            except BaseException as problem:
                _tell(wishes, summary(*_ending_of(problem)))
                raise
            _tell(wishes, summary(Exit.OK, ""))

        return run

    return decorate


def _ending_of(problem: BaseException) -> tuple[int, str]:
    """Return the exit code, and the message or what kind of fault of the program it is."""
    if not isinstance(problem, Exception):
        return int(Exit.INTERRUPTED), "interrupted"
    from spark_jobs.batch.endings import ending

    code, text = ending(problem)
    return (int(Exit.FAILED), f"{type(problem).__name__}: {text}") if code is None else (int(code), text)


def _tell(wishes: Wishes, run: RunSummary) -> None:
    from spark_jobs.observation.metrics_delivery import push_metrics, write_metrics_file

    if wishes.metrics_file is not None:
        write_metrics_file(wishes.metrics_file, run, _note)
    if wishes.metrics_push is not None:
        push_metrics(wishes.metrics_push, run, _note)


def _output_name(output: str) -> str:
    """Return the output folder by the same name however it was written."""
    from spark_jobs.batch.storage import local_folder

    folder = local_folder(output)
    return str(folder) if folder is not None else output.rstrip("/")


def _note(text: str) -> None:
    click.echo(text, err=True)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
