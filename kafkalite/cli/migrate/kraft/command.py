"""`kafkalite migrate kraft`: its group and commands."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkalite.cli.calls import bootstrap_option
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.doctor.report import report_findings
from kafkalite.cli.migrate.auditing import OFFSETS
from kafkalite.cli.migrate.kraft.forms import Form, Role
from kafkalite.cli.migrate.stepping import evidence_options, replace_server, step_options
from kafkalite.cli.output import Exit, fail, flush, format_count, note, output_option, write_line
from kafkalite.cli.zookeeper.session import zookeeper_option

if TYPE_CHECKING:
    from kafkalite.cli.migrate.kraft.phases import Voter
    from kafkalite.cli.migrate.kraft.plan import KraftPlan
    from kafkalite.cli.migrate.sequence import Replacement
    from kafkalite.cli.migrate.stepping import GivenCluster

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_GOALS: Final = ("migration", "kraft", "final", "kafka-4")
_ROLES: Final = {"final": (Form.KRAFT, Role.CONTROLLER)}


def _parse_voters(_: click.Context, __: click.Parameter, value: str) -> tuple[Voter, ...]:
    from kafkalite.cli.migrate.kraft.phases import parse_voters

    try:
        return parse_voters(value)
    except ValueError as failed:
        raise click.BadParameter(str(failed)) from None


def _controllers_option(function: Decorated) -> Decorated:
    option = click.option(
        "--controllers",
        "voters",
        required=True,
        callback=_parse_voters,
        metavar="ID@HOST:PORT,...",
        help="The controllers of the quorum, as in controller.quorum.voters.",
    )
    return option(function)


_listener_option: Final = click.option(
    "--controller-listener",
    "listener",
    default="CONTROLLER",
    show_default=True,
    help="The controllers' listener's name.",
)


@click.group(short_help="Move a cluster of Apache Kafka 3.9 to KRaft.")
def kraft() -> None:
    """Lead a cluster of Apache Kafka 3.9 from ZooKeeper to KRaft on the same logs, and to Apache Kafka 4."""


@kraft.command(short_help="Show how far the move is, and the way back.")
@click.option(
    "--before",
    "goal",
    type=click.Choice(_GOALS),
    default="migration",
    show_default=True,
    help="Before which phase: brokers in migration mode, brokers on KRaft, the finalization, Apache Kafka 4.",
)
@_controllers_option
@click.option("--problems", "only_problems", is_flag=True, help="Show problems and warnings only.")
@zookeeper_option
@bootstrap_option
@output_option()
def check(goal: str, voters: tuple[Voter, ...], only_problems: bool, zookeeper: str, output: str) -> None:
    """Say how far the move is, which way leads back, and what must hold before a phase. Changes nothing.

    Brokers, controllers and ZooKeeper are asked; before `kafka-4` ZooKeeper is not asked any more.

    Exits with 7 when there is a problem, and with 5 when brokers or ZooKeeper cannot be reached.
    """
    from kafkalite.cli.migrate.kraft.checks import judge
    from kafkalite.cli.migrate.kraft.cluster import find_epochs, needs_zookeeper, survey_move

    form, role = _ROLES.get(goal, (Form(goal) if goal in set(Form) else Form.KRAFT, Role.BROKER))
    asked = needs_zookeeper(form)
    survey = survey_move(voters, zookeeper if asked else None)
    findings = judge(survey, [f"{each.host}:{each.port}" for each in voters], form, role)
    if asked and form is Form.MIGRATION:
        findings += find_epochs(zookeeper)
    report_findings(findings, output, only_problems=only_problems)


@kraft.command(short_help="Write the plan of a move to KRaft, for a person to read.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_controllers_option
@_listener_option
@click.option("--dry-run", is_flag=True, help="Print the plan instead of writing it.")
@zookeeper_option
@bootstrap_option
def plan(file: Path, voters: tuple[Voter, ...], listener: str, dry_run: bool, zookeeper: str) -> None:
    """Write the plan of the move into FILE (TOML), for a person to read: its phases, the settings that each changes, the order of the
    servers, and the way back from each. Changes nothing in the cluster; the controllers need not run yet.

    Exits with 7 when something stands against its first step, which the plan names, and with 4 when FILE, its journal or its evidence
    exists.
    """
    from dataclasses import replace

    from kafkalite.cli.migrate.kraft.checks import judge
    from kafkalite.cli.migrate.kraft.cluster import survey_move
    from kafkalite.cli.migrate.kraft.plan import format_plan, make_plan
    from kafkalite.cli.migrate.plan_files import refuse_existing, write_plan

    if not dry_run:
        refuse_existing(file)
    survey = survey_move(voters, zookeeper)
    has_controllers = any(each.problem is None for each in survey.controllers)
    judged = survey if has_controllers else replace(survey, controllers=())  # the first phase provides them
    findings = judge(judged, [f"{each.host}:{each.port}" for each in voters], Form.MIGRATION, Role.BROKER)
    found = make_plan(survey, voters, listener, findings, datetime.now(UTC))
    counts = f"{format_count(len(found.steps), 'step')} in {format_count(len(found.phases), 'phase')}"
    write_plan(None if dry_run else file, format_plan(found), counts)
    if found.problems:
        note(f"{format_count(len(found.problems), 'problem')} against it: see `problems` in the plan")
        raise SystemExit(int(Exit.CHECK_FAILED))


@kraft.command(short_help="Restart the next server in its next form.")
@step_options
@evidence_options
@click.option(
    "--no-way-back",
    is_flag=True,
    help="Take the steps of the finalization, behind which no way leads back to ZooKeeper.",
)
@zookeeper_option
@bootstrap_option
def step(
    plan_file: Path,
    stop_command: str,
    start_command: str,
    evidence: Path | None,
    wait_s: float,
    dry_run: bool,
    yes: bool,
    topics: tuple[str, ...],
    last: int,
    no_way_back: bool,
    zookeeper: str,
) -> None:
    """Restart the next server of PLAN in its next form: check, digest the readable records, stop, start, wait until it is in sync, compare.

    Says which settings change and which way leads back. Your commands find the server in KAFKALITE_BROKER_ID and the form in
    KAFKALITE_FORM: migration, kraft, kafka-4. The last broker's step into migration mode waits until all metadata is copied.
    What was done is kept in PLAN.journal. Run the same command again to resume an interrupted step.

    Exit codes as of `kafkalite migrate step`; 2 before the finalization without --no-way-back.
    """
    from kafkalite.cli.migrate.journal import evidence_path
    from kafkalite.cli.migrate.kraft.sequence import choose_step
    from kafkalite.cli.migrate.replacing import StepOptions

    options = StepOptions(stop_command, start_command, evidence or evidence_path(plan_file), wait_s)

    def tell(plan: KraftPlan, chosen: Replacement) -> None:
        _tell_phase(plan, chosen)
        if _is_final(plan, chosen) and not no_way_back and not dry_run:
            fail("no way leads back to ZooKeeper from here: give --no-way-back to go on", Exit.USAGE)

    _move(plan_file, choose_step, options, zookeeper, dry_run, yes, tell, topics, last, is_back=False)


@kraft.command(short_help="Undo the last step.")
@step_options
@click.option(
    "--without-evidence",
    is_flag=True,
    help="Skip the evidence, when not all partitions can be read. The rollback is then not verified.",
)
@zookeeper_option
@bootstrap_option
def rollback(
    plan_file: Path,
    stop_command: str,
    start_command: str,
    evidence: Path | None,
    wait_s: float,
    dry_run: bool,
    yes: bool,
    without_evidence: bool,
    zookeeper: str,
) -> None:
    """Take the last step of PLAN back, finished or not: the server is restarted in the form that it had before, KAFKALITE_FORM.

    From KRaft a broker goes back to migration mode, from there to ZooKeeper; before that, if the quorum has taken the cluster, the
    controllers are stopped and `kafkalite migrate kraft release` gives it back. From Apache Kafka 4 a server goes back to 3.9.

    Exit codes as of `step`; 1 says too that there is no way back, and 3 that nothing is to be taken back.
    """
    from kafkalite.cli.migrate.journal import evidence_path
    from kafkalite.cli.migrate.kraft.sequence import choose_rollback
    from kafkalite.cli.migrate.replacing import StepOptions

    directory = evidence or evidence_path(plan_file)
    options = StepOptions(
        stop_command, start_command, directory, wait_s, is_checked=False, has_evidence=not without_evidence
    )
    _move(
        plan_file,
        choose_rollback,
        options,
        zookeeper,
        dry_run,
        yes,
        lambda plan, chosen: None,
        (),
        OFFSETS,
        is_back=True,
    )


def _move(
    plan_file: Path,
    choose: Callable[..., Replacement],
    options: Any,
    zookeeper: str,
    dry_run: bool,
    yes: bool,
    tell: Callable[[KraftPlan, Replacement], None],
    topics: tuple[str, ...],
    last: int,
    *,
    is_back: bool,
) -> None:
    from kafkalite.cli.migrate.kraft.cluster import MovingCluster
    from kafkalite.cli.migrate.kraft.plan import parse_plan
    from kafkalite.cli.migrate.kraft.sequence import find_role

    def make_cluster(plan: KraftPlan, chosen: Replacement) -> GivenCluster:
        role = find_role(plan, chosen.broker)
        return MovingCluster(plan, chosen, role, zookeeper, topics, last, is_back=is_back)

    replace_server(
        plan_file,
        parse_plan,
        choose,
        make_cluster,
        options,
        dry_run=dry_run,
        yes=yes,
        tell_more=tell,
        noun="server",
    )


def _tell_phase(plan: KraftPlan, chosen: Replacement) -> None:
    """Write what changes and which way leads back."""
    phase = plan.phase_of(chosen.broker, Form(chosen.target))
    if phase is None:
        return
    note(f"phase: {phase.name}")
    for name, value in phase.changed.items():
        note(f"  set {name}={value}")
    if phase.removed:
        note(f"  remove {', '.join(phase.removed)}")
    note(f"the way back, once it is begun: {phase.way_back}")


def _is_final(plan: KraftPlan, chosen: Replacement) -> bool:
    from kafkalite.cli.migrate.kraft.sequence import find_role

    return chosen.target is Form.KRAFT and find_role(plan, chosen.broker) is Role.CONTROLLER


@kraft.command(short_help="Give a cluster back to ZooKeeper on the way back.")
@_controllers_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option(
    "--controllers-stopped",
    "are_stopped",
    is_flag=True,
    help="Take controllers that cannot be asked for stopped; without it only those whose machine refuses the connection.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(1),
    default=120.0,
    show_default=True,
    help="Seconds for a broker to become controller.",
)
@zookeeper_option
@bootstrap_option
def release(
    voters: tuple[Voter, ...], yes: bool, dry_run: bool, are_stopped: bool, wait_s: float, zookeeper: str
) -> None:
    """Give a cluster back to ZooKeeper on the way back: delete /controller of the KRaft quorum and /migration, together.

    Refuses while a controller of the quorum may run, while a broker is or may be on KRaft, after the finalization, and where the claim is
    that of a controller that is not named, or ZooKeeper that of another cluster. Waits until a broker is the controller and all is in
    sync: no broker is restarted before that. Run again after an interruption it waits too, with nothing left to delete.

    Exits with 7 when it refuses or znodes need a repair, and with 5 when the time was up.
    """
    from kafkalite.cli.migrate.kraft.cluster import find_claim, release_claim, wait_for_controller

    found = find_claim(voters, zookeeper, are_stopped=are_stopped)
    note(f"to be deleted: {found}" if found else "no znode of a quorum is there")
    if dry_run:
        return
    if found:
        confirm("Give the cluster back to ZooKeeper?", yes)
        note(f"deleted: {release_claim(zookeeper)}")
    report_findings(wait_for_controller(voters, zookeeper, wait_s), "table", only_problems=True)


@kraft.command(short_help="Print a broker's server.properties in a form.")
@click.argument("form", type=click.Choice([str(each) for each in Form]))
@click.argument("file", type=click.Path(dir_okay=False, exists=True, path_type=Path))
@_controllers_option
@_listener_option
def settings(form: str, file: Path, voters: tuple[Voter, ...], listener: str) -> None:
    """Print the server.properties that a broker has in a form, made from FILE, the one that it has on ZooKeeper."""
    from kafkalite.cli.migrate.kraft.phases import convert_settings
    from kafkalite.config.properties import read_properties
    from zk.servers.java_properties import properties_text

    try:
        found = convert_settings(read_properties(file), Form(form), voters, listener)
    except ValueError as failed:
        fail(f"{file}: {failed}", Exit.USAGE)
    write_line(properties_text(found).removesuffix("\n"))
    flush()
