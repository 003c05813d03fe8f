"""`kafkalite migrate evidence|probe|verify`: what shows that a replacement of brokers has lost nothing."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import admin_options, bootstrap_option, producer_options, run_long
from kafkalite.cli.doctor.findings import Finding
from kafkalite.cli.doctor.report import report_findings
from kafkalite.cli.output import Exit, fail, format_count, note, output_option

if TYPE_CHECKING:
    from kafkalite.cli.migrate.evidence import Ledger, Moment
    from kafkalite.client import Admin

OFFSETS: Final = 100_000
"""How many offsets of each partition are read unless it is said otherwise."""
_DIRECTORY: Final = click.Path(file_okay=False, path_type=Path)


@click.command(short_help="Record digests and offsets before or after a replacement.")
@click.argument("moment", type=click.Choice(["before", "after"]))
@click.argument("directory", type=_DIRECTORY)
@click.option(
    "-t", "--topic", "topics", multiple=True, help="With `before`: only this topic; may be repeated. Without: all."
)
@click.option(
    "--last",
    type=click.IntRange(1),
    default=OFFSETS,
    show_default=True,
    help="With `before`: so many offsets of each partition.",
)
@click.option(
    "--without-probe",
    is_flag=True,
    help="With `after`: leave the probe out, as where it was killed and its ledger is not whole.",
)
@click.option(
    "--without-epochs",
    is_flag=True,
    help="With `before`: leave leader epochs out of the digests of replicas, as for `kafkalite mirror back`.",
)
@bootstrap_option
def evidence(
    moment: str, directory: Path, topics: tuple[str, ...], last: int, without_probe: bool, without_epochs: bool
) -> None:
    """Record digests of records and committed offsets before or after a replacement, in DIRECTORY. Changes nothing in the cluster.

    `after` reads the ranges of `before` again, and all records of the probe. Internal topics are left out unless they are named.
    Records are read from leaders, up to the high watermark; the batches of all replicas in sync are compared as bytes, with markers of
    transactions and which transactions are aborted, but for compacted topics.
    """
    take_evidence(
        directory,
        is_first=moment == "before",
        topics=topics,
        last=last,
        without_probe=without_probe,
        without_epochs=without_epochs,
    )


def take_evidence(
    directory: Path,
    *,
    is_first: bool,
    topics: Collection[str] = (),
    last: int = OFFSETS,
    without_probe: bool = False,
    without_epochs: bool = False,
) -> None:
    """Write what can be read now into the directory. What cannot be done ends the command."""
    from kafkalite.cli.migrate.evidence import AFTER_FILE, BEFORE_FILE, LEDGER_FILE, sync_directory, write_moment
    from kafkalite.cli.migrate.witness import take_after, take_before

    path = directory / (BEFORE_FILE if is_first else AFTER_FILE)
    _refuse_existing(path)
    options = admin_options("Consumer")
    has_ledger = not without_probe and (directory / LEDGER_FILE).exists()
    earlier = None if is_first else _read_evidence(directory, with_probe=has_ledger)

    async def take(admin: Admin) -> Moment:
        if earlier is not None:
            return await take_after(admin, options, earlier[0], earlier[1])
        wanted = topics or await admin.list_topics()
        return await take_before(admin, options, wanted, last, without_epochs=without_epochs)

    found = ask_cluster(take)
    directory.mkdir(parents=True, exist_ok=True)
    sync_directory(directory.parent)
    write_moment(path, found)
    records = sum(each.records for each in found.ranges.values())
    note(f"{format_count(records, 'record')} of {format_count(len(found.partitions), 'partition')} in {path}")


@click.command(short_help="Produce numbered records while brokers are replaced.")
@click.argument("directory", type=_DIRECTORY)
@click.option("-t", "--topic", required=True, help="A topic of its own, with as many replicas as those that matter.")
@click.option(
    "--rate",
    type=click.FloatRange(0, 10_000, min_open=True),
    default=100.0,
    show_default=True,
    help="Records a second.",
)
@click.option("--records", "most", type=click.IntRange(1), help="End after so many. Without it: at Ctrl-C or SIGTERM.")
@click.option("--dry-run", is_flag=True, help="Only say where records would go.")
@bootstrap_option
def probe(directory: Path, topic: str, rate: float, most: int | None, dry_run: bool) -> None:
    """Produce numbered records while brokers are replaced, and write down in DIRECTORY which of them were acknowledged.

    Records go to all partitions of the topic in turn, with acks=all. A probe that was killed leaves a ledger that `verify` refuses.
    """
    from kafkalite.cli.migrate.evidence import LEDGER_FILE
    from kafkalite.cli.migrate.probe import run_probe

    path = directory / LEDGER_FILE
    _refuse_existing(path)
    ((described,), options) = ask_cluster(lambda admin: admin.describe_topics([topic])), producer_options()
    where = f"{format_count(len(described.partitions), 'partition')} of {topic}"
    if dry_run:
        note(f"{rate:g} records a second would go to {where}")
        return
    directory.mkdir(parents=True, exist_ok=True)
    note(f"{rate:g} records a second go to {where}, until {'Ctrl-C' if most is None else f'{most} are sent'}")
    done = run_long(run_probe(path, topic, options, rate, most))
    note(f"{done.acknowledged} of {format_count(done.sent, 'record')} acknowledged, in {path}")


@click.command(short_help="Judge the evidence, without a cluster.")
@click.argument("directory", type=click.Path(file_okay=False, exists=True, path_type=Path))
@click.option(
    "--without-probe", is_flag=True, help="Leave the probe out: what was written meanwhile is not judged then."
)
@click.option("--copy", "is_copy", is_flag=True, help="After is of another cluster, as behind `kafkalite mirror`.")
@click.option("--problems", "only_problems", is_flag=True, help="Show problems and warnings only.")
@output_option()
def verify(directory: Path, without_probe: bool, is_copy: bool, only_problems: bool, output: str) -> None:
    """Judge the evidence in DIRECTORY, without a cluster: what was there before, and what was acknowledged, is there after, once,
    unchanged and in order, and no group is behind.

    Exits with 7 when it is not, with 1 when the evidence is incomplete, so that nothing follows from it, and with 3 when a file is missing.
    """
    findings = audit_evidence(directory, without_probe=without_probe, is_copy=is_copy)
    report_findings(findings, output, only_problems=only_problems)


def audit_evidence(directory: Path, *, without_probe: bool, is_copy: bool = False) -> list[Finding]:
    """Return what the auditor finds. What is missing or incomplete ends the command."""
    from kafkalite.cli.migrate.audit import ForeignEvidenceError, audit
    from kafkalite.cli.migrate.evidence import AFTER_FILE, IncompleteEvidenceError, read_moment

    before, ledger = _read_evidence(directory, with_probe=not without_probe)
    try:
        return audit(before, read_moment(directory / AFTER_FILE, to_the_end=False), ledger, is_copy=is_copy)
    except FileNotFoundError as failed:
        _fail_missing(failed)
    except (IncompleteEvidenceError, ForeignEvidenceError) as failed:
        fail(str(failed))


def _read_evidence(directory: Path, *, with_probe: bool) -> tuple[Moment, Ledger | None]:
    """Return what was before, and the probe's ledger. What is missing or incomplete ends the command."""
    from kafkalite.cli.migrate.evidence import (
        BEFORE_FILE,
        LEDGER_FILE,
        IncompleteEvidenceError,
        read_ledger,
        read_moment,
    )

    try:
        before = read_moment(directory / BEFORE_FILE, to_the_end=True)
        return before, read_ledger(directory / LEDGER_FILE) if with_probe else None
    except FileNotFoundError as failed:
        _fail_missing(failed)
    except IncompleteEvidenceError as failed:
        fail(str(failed))


def _fail_missing(failed: FileNotFoundError) -> NoReturn:
    fail(f"{failed.filename} is missing: kafkalite migrate evidence and probe write it", Exit.NOT_FOUND)


def _refuse_existing(path: Path) -> None:
    if path.exists():
        fail(f"{path} exists; evidence is never written over: give another directory", Exit.EXISTS)
