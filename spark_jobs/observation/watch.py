"""A command that is watched: however it ends, what the user asked for is told. What cannot be told changes nothing in the run's result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from spark_jobs.batch.failures import Exit
from spark_jobs.observation.telling_options import Wishes, take_wishes

if TYPE_CHECKING:
    from spark_jobs.observation.lineage import Lineage
    from spark_jobs.observation.run_summary import RunSummary

Command = Callable[..., None]


def watch_run(command: str) -> Callable[[Command], Command]:
    """Give the function an option `journal`, and tell what became of the run when it ends. Options of TELLING are not handed on."""

    def decorate(function: Command) -> Command:
        @wraps(function)
        def run(**given: Any) -> None:
            from spark_jobs.observation.journal import Journal

            wishes, options = take_wishes(given)
            lineage = _lineage(wishes, options)
            journal, started_ms = Journal([lineage] if lineage is not None else [], _note), _now_ms()

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
                code, text = _ending_of(problem)
                if lineage is not None:
                    _attempt("lineage", lambda: lineage.fail_open_runs(text))
                _tell(wishes, summary(code, text))
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


def _lineage(wishes: Wishes, options: Mapping[str, Any]) -> Lineage | None:
    from pyspark import __version__ as engine_version

    from spark_jobs.observation.lineage import LineagePlace
    from spark_jobs.observation.lineage_delivery import open_lineage

    place = LineagePlace(
        options["bootstrap_server"],
        _output_name(options["output"]),
        options["time_zone"],
        engine_version=engine_version,
    )
    return open_lineage(wishes.lineage, place, _now_ms, _note, os.environ)


def _tell(wishes: Wishes, run: RunSummary) -> None:
    from spark_jobs.observation.hooks import run_hook
    from spark_jobs.observation.metrics_delivery import push_metrics, write_metrics_file

    if (path := wishes.metrics_file) is not None:
        _attempt("the metrics' file", lambda: write_metrics_file(path, run, _note))
    if (url := wishes.metrics_push) is not None:
        _attempt("the push of metrics", lambda: push_metrics(url, run, _note))
    if (hook := wishes.on_success if run.succeeded else wishes.on_failure) is not None:
        _attempt("the hook", lambda: run_hook(hook, run, wishes.hook_timeout_s, _note))


def _attempt(what: str, action: Callable[[], None]) -> None:
    """Do what tells of a run; an error of any kind is told, for it must not take the place of the run's result."""
    try:
        action()
    except Exception as problem:
        _note(f"warning: {what} failed: {type(problem).__name__}: {problem}")


def _output_name(output: str) -> str:
    """Return the output folder by the same name however it was written, with question marks for what is not UTF-8."""
    from spark_jobs.batch.storage import local_folder

    folder = local_folder(output)
    name = str(folder) if folder is not None else output.rstrip("/")
    return name.encode(errors="replace").decode()


def _note(text: str) -> None:
    click.echo(text, err=True)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
