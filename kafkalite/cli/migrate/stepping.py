"""`kafkalite migrate step|rollback`: replaces the next broker of a plan, or takes the last replacement back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kafkalite.cli.calls import admin_options, bootstrap_option, given_timeout_s
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.doctor.findings import Status
from kafkalite.cli.migrate.auditing import OFFSETS
from kafkalite.cli.output import Exit, fail, fail_each, note
from kafkalite.cli.zookeeper.session import zookeeper_option, zookeeper_security

if TYPE_CHECKING:
    from kafkalite.cli.migrate.plan import Plan
    from kafkalite.cli.migrate.replacing import StepOptions
    from kafkalite.cli.migrate.sequence import Entry, Replacement, Target
    from kafkalite.cli.migrate.survey import Side
    from kafkalite.client import Admin
    from zk.store import Store

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
AnyPlan = TypeVar("AnyPlan")

BROKER_VARIABLE: Final = "KAFKALITE_BROKER_ID"
"""Environment variable that tells an operator's command which broker it is about."""
_NEEDED_AREAS: Final = ("znodes", "disks")
"""Areas of the check that stand against a step when they cannot be looked at; others tell of that by problems."""


def _refuse_blank(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("it is blank")
    return value


def step_options(function: Decorated) -> Decorated:
    """Add the options of both commands."""
    for option in (
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Only say what would be done."),
        click.option(
            "--wait",
            "wait_s",
            type=click.FloatRange(1),
            default=600.0,
            show_default=True,
            help="Seconds for the broker to be in sync. One that ended after its start is started again only with more than 10.",
        ),
        click.option(
            "--evidence",
            "evidence",
            type=click.Path(file_okay=False, path_type=Path),
            help="Where digests of records are written.  [default: PLAN.evidence]",
        ),
        click.option(
            "--start-command",
            required=True,
            callback=_refuse_blank,
            help="Starts the other program, and returns. May be repeated.",
        ),
        click.option(
            "--stop-command",
            required=True,
            callback=_refuse_blank,
            help=f"Stops the program that runs, cleanly, and returns when it has ended. May be repeated; ${BROKER_VARIABLE} is the broker.",
        ),
        click.argument("plan_file", metavar="PLAN", type=click.Path(dir_okay=False, exists=True, path_type=Path)),
    ):
        function = option(function)
    return function


def evidence_options(function: Decorated) -> Decorated:
    """Add the options that say of what a step takes evidence."""
    topics = click.option(
        "-t", "--topic", "topics", multiple=True, help="Evidence of only this topic; may be repeated. Without: all."
    )
    last = click.option(
        "--last",
        type=click.IntRange(1),
        default=OFFSETS,
        show_default=True,
        help="Evidence of so many offsets of each partition.",
    )
    return topics(last(function))


@click.command(short_help="Replace the next broker of the plan.")
@step_options
@evidence_options
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
    zookeeper: str,
) -> None:
    """Replace the next broker of PLAN: check, digest the readable records, stop, start, wait until it is in sync, compare.

    What was done is kept in PLAN.journal. Run the same command again to resume an interrupted step.

    Exits with 7 when a check or the comparison finds a problem, with 5 when ZooKeeper or the cluster cannot be reached, or the broker is
    not stopped, started or in sync in time, with 3 when all steps are done, and with 1 when it cannot go on for another reason: a command
    that fails, evidence or a journal that is not whole, a rollback that is not finished, another tool at work.
    """
    from kafkalite.cli.migrate.journal import evidence_path
    from kafkalite.cli.migrate.replacing import StepOptions
    from kafkalite.cli.migrate.sequence import choose_step

    directory = evidence or evidence_path(plan_file)
    options = StepOptions(stop_command, start_command, directory, wait_s)
    _replace(plan_file, choose_step, options, zookeeper, dry_run, yes, topics, last)


@click.command(short_help="Undo the last replacement.")
@step_options
@click.option(
    "--without-evidence",
    is_flag=True,
    help="Skip the evidence, when not all partitions can be read. The rollback is then not verified.",
)
@click.option(
    "--broker", type=int, help="Take back this broker.  [default: the one that was replaced last, finished or not]"
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
    broker: int | None,
    zookeeper: str,
) -> None:
    """Take the last replacement of PLAN back, whether it was finished or not: the new program is stopped, the old one started.

    As a step, but without the check, since a rollback may be what ends its problems. A step that was begun and has not stopped its broker
    yet needs none; the broker before it is taken back with --broker.

    Exit codes as of `step`; 3 says that no broker is replaced.
    """
    from functools import partial

    from kafkalite.cli.migrate.journal import evidence_path
    from kafkalite.cli.migrate.replacing import StepOptions
    from kafkalite.cli.migrate.sequence import choose_rollback

    directory = evidence or evidence_path(plan_file)
    options = StepOptions(
        stop_command, start_command, directory, wait_s, is_checked=False, has_evidence=not without_evidence
    )
    _replace(plan_file, partial(choose_rollback, broker=broker), options, zookeeper, dry_run, yes)


def _replace(
    plan_file: Path,
    choose: Callable[[Plan, Sequence[Entry]], Replacement],
    options: StepOptions,
    zookeeper: str,
    dry_run: bool,
    yes: bool,
    topics: tuple[str, ...] = (),
    last: int = OFFSETS,
) -> None:
    from kafkalite.cli.migrate.plan import parse_plan

    def make_cluster(plan: Plan, _: Replacement) -> GivenCluster:
        return GivenCluster(plan.cluster_id, zookeeper, topics, last, plan.held)

    replace_server(plan_file, parse_plan, choose, make_cluster, options, dry_run=dry_run, yes=yes)


def replace_server(
    plan_file: Path,
    parse: Callable[[str], AnyPlan],
    choose: Callable[[AnyPlan, Sequence[Entry]], Replacement],
    make_cluster: Callable[[AnyPlan, Replacement], GivenCluster],
    options: StepOptions,
    *,
    dry_run: bool,
    yes: bool,
    tell_more: Callable[[AnyPlan, Replacement], None] = lambda plan, chosen: None,
    noun: str = "broker",
) -> None:
    """Carry out what `choose` returns for the plan and its journal. What goes wrong ends the command with its exit code.

    `tell_more` is called before anything is done, and may end the command.
    """
    from kafkalite.cli.migrate.evidence import IncompleteEvidenceError
    from kafkalite.cli.migrate.journal import Journal, JournalError, journal_path, read_journal
    from kafkalite.cli.migrate.plan import PlanError, read_plan
    from kafkalite.cli.migrate.replacing import NotYetError, RefusedError, Replacing
    from kafkalite.cli.migrate.sequence import Act, NothingLeftError, SequenceError, list_acts_left, name_of

    path = journal_path(plan_file)
    try:
        plan = read_plan(plan_file, parse)
        entries = read_journal(path)
        chosen = choose(plan, entries)
        acts = [each for each in list_acts_left(entries, chosen) if options.is_checked or each is not Act.CHECK]
        note(f"{noun} {chosen.broker} becomes {name_of(chosen.target)}: {', '.join(acts)}")
        note(f"stop: {options.stop_command}\nstart: {options.start_command}\nevidence: {options.evidence_of(chosen)}")
        tell_more(plan, chosen)
        if dry_run:
            return
        confirm(f"Replace {noun} {chosen.broker}?", yes)
        with Journal(path) as journal:
            if choose(plan, journal.entries) != chosen:
                fail(f"somebody else went on with {path} meanwhile: look again")
            Replacing(make_cluster(plan, chosen), journal, chosen, options, note, noun).run()
    except PlanError as failed:
        fail(f"{plan_file} is no plan: {failed}", Exit.USAGE)
    except SequenceError as failed:
        fail(str(failed), Exit.NOT_FOUND if isinstance(failed, NothingLeftError) else Exit.FAILED)
    except RefusedError as failed:
        fail_each(failed.problems, Exit.CHECK_FAILED)
    except NotYetError as failed:
        fail(f"{failed}; run the same command again to go on from here", Exit.UNREACHABLE)
    except (JournalError, IncompleteEvidenceError, OSError) as failed:
        fail(str(failed))
    except SystemExit as ended:  # what is not found in an act does not mean that nothing is left to do
        if ended.code == Exit.UNREACHABLE and options.has_evidence and not options.is_checked:
            note("If a stopped server keeps evidence from being read, call the rollback again with --without-evidence")
        raise SystemExit(int(Exit.FAILED) if ended.code == Exit.NOT_FOUND else ended.code) from None
    note(f"{noun} {chosen.broker} is {name_of(chosen.target)}")


class GivenCluster:
    """The `Cluster` of `replacing`: that of the command line, and the operator's commands."""

    def __init__(
        self,
        cluster_id: str,
        zookeeper: str,
        topics: tuple[str, ...] = (),
        last: int = OFFSETS,
        held: Mapping[str, str] | None = None,
    ) -> None:
        self._cluster_id, self._zookeeper, self._topics, self._last = cluster_id, zookeeper, topics, last
        self._held = {} if held is None else held
        self._environment: dict[str, str] = {}

    def find_problems(self, target: Target) -> list[str]:
        from kafkalite.cli.migrate.surveying import list_areas

        found = []
        for area, look in list_areas(target, self._zookeeper).items():
            for each in look():
                if each.status is Status.PROBLEM:
                    found.append(f"{each.check}: {each.found} ({each.remedy})")
                elif each.status is Status.SKIPPED and area in _NEEDED_AREAS:
                    found.append(f"{each.check} could not be looked at: {each.found}")
        return found

    def find_foreign(self) -> list[str]:
        """Return whether ZooKeeper or the brokers are of another cluster than the plan; brokers that do not answer tell nothing."""
        from kafkalite.cli.migrate.survey import read_cluster_id
        from kafkalite.client.errors import ClientError

        async def describe(admin: Admin) -> str | None:
            return (await admin.describe_cluster()).cluster_id

        told = {f"ZooKeeper at {self._zookeeper}": self.read_zookeeper(read_cluster_id)}
        with suppress(ClientError):
            told["the brokers"] = self._try(describe)
        wanted = self._cluster_id
        return [
            f"the plan is for cluster {wanted}, {who}: {found or 'none'}"
            for who, found in told.items()
            if found != wanted
        ]

    def take_evidence(self, directory: Path, *, is_first: bool) -> None:
        from kafkalite.cli.migrate.auditing import take_evidence

        take_evidence(directory, is_first=is_first, topics=self._topics, last=self._last)

    def audit_evidence(self, directory: Path) -> list[str]:
        from kafkalite.cli.migrate.auditing import audit_evidence
        from kafkalite.cli.migrate.evidence import BEFORE_FILE, read_sealed

        findings = audit_evidence(directory, without_probe=True)
        cluster_id = read_sealed(directory / BEFORE_FILE)[0].get("cluster_id")
        if cluster_id != self._cluster_id:
            return [f"{directory} is of cluster {cluster_id}, the plan is for {self._cluster_id}"]
        for each in findings:
            if each.status in (Status.WARNING, Status.SKIPPED):
                note(f"{each.status}: {each.check}: {each.found}{f' ({each.remedy})' if each.remedy else ''}")
        return [each.found for each in findings if each.status is Status.PROBLEM]

    def is_registered(self, broker: int) -> bool:
        from zk import paths

        async def look(store: Store, chroot: str) -> bool:
            return await store.exists(chroot + paths.broker(broker)) is not None

        return bool(self.read_zookeeper(look))

    def read_zookeeper(self, read: Callable[[Store, str], Any]) -> Any:
        """Return what a function reads of the store below a chroot. What cannot be read ends the command."""
        import asyncio

        from kafkalite.cli.doctor.zookeeper import open_store
        from zk.store import StoreError
        from zk.znodes import MalformedZnodeError

        async def look() -> Any:
            async with open_store(self._zookeeper, given_timeout_s(), zookeeper_security()) as (store, chroot):
                return await read(store, chroot)

        try:
            return asyncio.run(look())
        except MalformedZnodeError as failed:
            fail(f"ZooKeeper at {self._zookeeper}: {failed}", Exit.CHECK_FAILED)
        except ValueError as failed:
            fail(str(failed), Exit.USAGE)
        except (OSError, StoreError) as failed:
            fail(f"ZooKeeper at {self._zookeeper}: {failed}", Exit.UNREACHABLE)

    def find_side(self, broker: int) -> Target | None:
        from kafkalite.cli.migrate.survey import side_of
        from kafkalite.client.errors import ClientError

        async def look(admin: Admin) -> Side:
            return side_of(await admin.describe_configs("broker", str(broker)))

        try:
            return cast("Side", self._try(look))
        except ClientError:
            return None

    def find_unheld(self, broker: int) -> list[str]:
        from kafkalite.cli.migrate.plan import find_unheld
        from kafkalite.client.errors import ClientError

        async def look(admin: Admin) -> list[str]:
            settings = await admin.describe_configs("broker", str(broker))
            return find_unheld(self._held, broker, {name: each.value for name, each in settings.items()})

        if not self._held:
            return []
        try:
            return cast("list[str]", self._try(look))
        except ClientError as failed:
            return [f"the settings of broker {broker} cannot be read: {failed}"]

    def run_command(self, command: str, broker: int) -> None:
        import os
        import subprocess

        done = subprocess.run(
            ["sh", "-c", command], env=os.environ | {BROKER_VARIABLE: str(broker)} | self._environment, check=False
        )
        if done.returncode != 0:
            raise ChildProcessError(f"exit code {done.returncode} of: {command}")

    def find_unsettled(self, broker: int, target: Target) -> str:
        from kafkalite.cli.migrate.survey import NAMES, side_of

        async def look(admin: Admin) -> str:
            from kafkalite.administration.cluster_health import check_cluster

            if broker not in {each.id for each in (await admin.describe_cluster()).brokers}:
                return f"broker {broker} is not registered"
            side = side_of(await admin.describe_configs("broker", str(broker)))
            if side is not target:
                return f"broker {broker} is {NAMES[side]}"
            return "; ".join(
                f"{each.check}: {', '.join(each.problems[:5])}"
                for each in await check_cluster(admin)
                if not each.healthy
            )

        return self._ask(look)

    def elect_preferred_leaders(self) -> None:
        from kafkalite.client.errors import ClientError
        from kafkalite.errors import ErrorCode

        async def elect(admin: Admin) -> None:
            await admin.elect_leaders("preferred")

        try:
            try:
                self._try(elect)
            except ClientError as failed:
                if failed.code is not ErrorCode.UNSUPPORTED_VERSION:
                    raise
                self._request_election()  # a controller before 2.2, which looks into a znode
        except ClientError as failed:
            note(f"not all preferred leaders were elected: {failed}")

    def _request_election(self) -> None:
        """Write a preferred election into ZooKeeper, as tools before KIP-460 do. The controller that carries it out deletes the znode."""
        from zk import paths
        from zk.store import NodeExistsError
        from zk.znodes import PartitionName, PreferredElection

        async def find(admin: Admin) -> tuple[PartitionName, ...]:
            topics = await admin.describe_topics(await admin.list_topics(include_internal=True))
            return tuple(
                PartitionName(each.topic, each.partition)
                for topic in topics
                for each in topic.partitions
                if each.leader not in each.replicas[:1] and set(each.replicas[:1]) <= set(each.isr)
            )

        async def write(store: Store, chroot: str) -> None:
            with suppress(NodeExistsError):
                await store.create(chroot + paths.PREFERRED_REPLICA_ELECTION, PreferredElection(found).encode())

        if found := cast("tuple[PartitionName, ...]", self._try(find)):
            self.read_zookeeper(write)

    def _ask(self, question: Callable[[Admin], Any]) -> str:
        """Return what the question returns, or why it had no answer."""
        from kafkalite.client.errors import ClientError

        try:
            return str(self._try(question))
        except ClientError as failed:
            return str(failed)

    def _try(self, question: Callable[[Admin], Any]) -> Any:
        """Return what the question returns. Raises ClientError."""
        import asyncio

        from kafkalite.client import Admin

        async def ask() -> Any:
            async with Admin(**admin_options()) as admin:
                return await question(admin)

        return asyncio.run(ask())
