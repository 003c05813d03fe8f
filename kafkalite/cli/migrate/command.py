"""`kafkalite migrate`: its group, and `check` and `plan`; steps are in `stepping`, the evidence of them in `auditing`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from kafkalite import NAME
from kafkalite.cli.calls import bootstrap_option
from kafkalite.cli.doctor.report import report_areas
from kafkalite.cli.migrate.auditing import evidence, probe, verify
from kafkalite.cli.migrate.kraft.command import kraft
from kafkalite.cli.migrate.stepping import rollback, step
from kafkalite.cli.migrate.surveying import list_areas, survey_cluster
from kafkalite.cli.output import Exit, format_count, note, output_option
from kafkalite.cli.zookeeper.session import zookeeper_option

_SIDES: Final = (NAME, "apache-kafka")
_AREAS: Final = ("zookeeper", "znodes", "cluster", "disks", "brokers", "metadata")


@click.group()
def migrate() -> None:
    """Replace brokers of Apache Kafka by kafkalite's on the same logs, one after the other, or the other way."""


for each in (step, rollback, evidence, probe, verify, kraft):
    migrate.add_command(each)


@migrate.command()
@click.option(
    "--to", "target", type=click.Choice(_SIDES), default=NAME, show_default=True, help="What the brokers become."
)
@click.option("--only", type=click.Choice(_AREAS), multiple=True, help="Check only this area; may be repeated.")
@click.option("--problems", "only_problems", is_flag=True, help="Show problems and warnings only.")
@zookeeper_option
@bootstrap_option
@output_option()
def check(target: str, only: tuple[str, ...], only_problems: bool, zookeeper: str, output: str) -> None:
    """Check what must hold before a broker is replaced. Changes nothing.

    \b
    zookeeper, znodes, cluster, disks   as `kafkalite doctor`: quorum, controller, leaders, ISRs, registered brokers, room
    brokers                             kinds, releases, inter.broker.protocol.version; settings that differ or have no effect
    metadata                            settings of topics, ACLs, quotas, delegation tokens, features; moves, deletions, transactions

    Exits with 7 when there is a problem, and with 5 when ZooKeeper or the brokers cannot be reached; warnings are not problems.
    """
    report_areas(list_areas(target, zookeeper), only, output, only_problems=only_problems)


@migrate.command(short_help="Write a migration plan, for a person to read.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--to", "target", type=click.Choice(_SIDES), default=NAME, show_default=True, help="What the brokers become."
)
@click.option("--dry-run", is_flag=True, help="Print the plan instead of writing it.")
@zookeeper_option
@bootstrap_option
def plan(file: Path, target: str, dry_run: bool, zookeeper: str) -> None:
    """Write the plan of a migration into FILE (TOML), for a person to read: which broker follows which, what is done with each, and which
    settings are held meanwhile. Changes nothing in the cluster.

    Exits with 7 when something in brokers or metadata stands against it, which the plan names, and with 4 when FILE, its journal or its
    evidence exists. `kafkalite migrate check` looks at more: whether the cluster is well now.
    """
    from kafkalite.cli.migrate import checks
    from kafkalite.cli.migrate.plan import format_plan, make_plan
    from kafkalite.cli.migrate.plan_files import refuse_existing, write_plan
    from kafkalite.cli.migrate.survey import Side

    if not dry_run:
        refuse_existing(file)
    side = Side(target)
    survey = survey_cluster(zookeeper)
    findings = [*checks.judge_brokers(survey, side), *checks.judge_metadata(survey, side)]
    found = make_plan(survey, side, findings, datetime.now(UTC))
    text = format_plan(found)
    write_plan(None if dry_run else file, text, format_count(len(found.steps), "step"))
    if found.problems:
        note(
            f"{format_count(len(found.problems), 'problem')} against it: see `problems` in the plan, and kafkalite migrate check"
        )
        raise SystemExit(int(Exit.CHECK_FAILED))
