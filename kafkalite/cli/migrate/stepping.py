"""`kafkalite migrate step|rollback`: replaces the next broker of a plan, or takes the last replacement back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkalite.cli.calls import admin_options, bootstrap_option, given_timeout_s
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.doctor.findings import Status
from kafkalite.cli.output import Exit, fail, fail_each, note
from kafkalite.cli.zookeeper.session import zookeeper_option, zookeeper_security

if TYPE_CHECKING:
    from kafkalite.cli.migrate.plan import Plan
    from kafkalite.cli.migrate.replacing import Orders
    from kafkalite.cli.migrate.sequence import Entry, Replacement
    from kafkalite.cli.migrate.survey import Side
    from kafkalite.client import Admin

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

BROKER_VARIABLE: Final = "KAFKALITE_BROKER_ID"
"""Environment variable that tells an operator's command which broker it is about."""


def _options(function: Decorated) -> Decorated:
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
            help="Seconds for the broker to be in sync.",
        ),
        click.option(
            "--evidence",
            "evidence",
            type=click.Path(file_okay=False, path_type=Path),
            help="Where digests of records are written.  [default: PLAN.evidence]",
        ),
        click.option("--start-command", required=True, help="Starts the other program, and returns. May be repeated."),
        click.option(
            "--stop-command",
            required=True,
            help=f"Stops the program that runs, cleanly, and returns when it has ended. May be repeated; ${BROKER_VARIABLE} is the broker.",
        ),
        click.argument("plan_file", metavar="PLAN", type=click.Path(dir_okay=False, exists=True, path_type=Path)),
    ):
        function = option(function)
    return function


@click.command()
@_options
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
    zookeeper: str,
) -> None:
    """Replace the next broker of PLAN: check, note what can be read, stop, start, wait until it is in sync, compare.

    What was done is kept in PLAN.journal. A step that was interrupted, or whose tool was killed, is gone on with by the same command.

    Exits with 7 when a check or the comparison finds a problem, with 5 when the broker is not in sync in time, and with 3 when nothing is
    left to do.
    """
    from kafkalite.cli.migrate.journal import evidence_path
    from kafkalite.cli.migrate.replacing import Orders
    from kafkalite.cli.migrate.sequence import choose_step

    directory = evidence or evidence_path(plan_file)
    _replace(plan_file, choose_step, Orders(stop_command, start_command, directory, wait_s), zookeeper, dry_run, yes)


@click.command()
@_options
@click.option("--without-evidence", is_flag=True, help="Where not all can be read any more: nothing is proven then.")
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
    """Take the last replacement of PLAN back, whether it was finished or not: the new program is stopped, the old one started.

    As a step, but without the check, since a way back may be what ends its problems. Exit codes as of `step`.
    """
    from kafkalite.cli.migrate.journal import evidence_path
    from kafkalite.cli.migrate.replacing import Orders
    from kafkalite.cli.migrate.sequence import choose_rollback

    directory = evidence or evidence_path(plan_file)
    orders = Orders(stop_command, start_command, directory, wait_s, is_checked=False, has_evidence=not without_evidence)
    _replace(plan_file, choose_rollback, orders, zookeeper, dry_run, yes)


def _replace(
    plan_file: Path,
    choose: Callable[[Plan, Sequence[Entry]], Replacement],
    orders: Orders,
    zookeeper: str,
    dry_run: bool,
    yes: bool,
) -> None:
    from kafkalite.cli.migrate.evidence import IncompleteEvidenceError
    from kafkalite.cli.migrate.journal import Journal, JournalError, journal_path, read_journal
    from kafkalite.cli.migrate.plan import PlanError, parse_plan
    from kafkalite.cli.migrate.replacing import NotYetError, RefusedError, Replacing
    from kafkalite.cli.migrate.sequence import Act, SequenceError, list_acts_left
    from kafkalite.cli.migrate.survey import NAMES

    path = journal_path(plan_file)
    try:
        plan = parse_plan(plan_file.read_text())
        entries = read_journal(path)
        chosen = choose(plan, entries)
        acts = [each for each in list_acts_left(entries, chosen) if orders.is_checked or each is not Act.CHECK]
        note(f"broker {chosen.broker} becomes {NAMES[chosen.target]}: {', '.join(acts)}")
        note(f"stop: {orders.stop_command}\nstart: {orders.start_command}\nevidence: {orders.evidence_of(chosen)}")
        if dry_run:
            return
        confirm(f"Replace broker {chosen.broker}?", yes)
        with Journal(path) as journal:
            if choose(plan, journal.entries) != chosen:
                fail(f"somebody else went on with {path} meanwhile: look again")
            Replacing(_Cluster(plan, zookeeper), journal, chosen, orders, note).run()
    except PlanError as failed:
        fail(f"{plan_file} is no plan: {failed}", Exit.USAGE)
    except SequenceError as failed:
        fail(str(failed), Exit.NOT_FOUND)
    except RefusedError as failed:
        fail_each(failed.problems, Exit.CHECK_FAILED)
    except NotYetError as failed:
        fail(f"{failed}; the same command goes on from here", Exit.UNREACHABLE)
    except (JournalError, IncompleteEvidenceError) as failed:
        fail(str(failed))
    except ChildProcessError as failed:
        fail(str(failed))
    note(f"broker {chosen.broker} is {NAMES[chosen.target]}")


class _Cluster:
    """The world of `replacing`: the cluster of the command line, and the operator's commands."""

    def __init__(self, plan: Plan, zookeeper: str) -> None:
        self._plan, self._zookeeper = plan, zookeeper

    def find_problems(self, target: Side) -> list[str]:
        from kafkalite.cli.migrate.surveying import list_areas, survey_cluster

        found = survey_cluster(self._zookeeper)
        if found.cluster_id != self._plan.cluster_id:
            return [f"the plan is for cluster {self._plan.cluster_id}, this is {found.cluster_id}"]
        return [
            f"{each.check}: {each.found} ({each.remedy})"
            for look in list_areas(target, self._zookeeper).values()
            for each in look()
            if each.status is Status.PROBLEM
        ]

    def take_evidence(self, directory: Path, *, is_first: bool) -> None:
        from kafkalite.cli.migrate.auditing import take_evidence

        take_evidence(directory, is_first=is_first)

    def audit_evidence(self, directory: Path) -> list[str]:
        from kafkalite.cli.migrate.auditing import audit_evidence
        from kafkalite.cli.migrate.evidence import BEFORE_FILE, read_sealed

        cluster_id = read_sealed(directory / BEFORE_FILE)[0].get("cluster_id")
        if cluster_id != self._plan.cluster_id:
            return [f"{directory} is of cluster {cluster_id}, the plan is for {self._plan.cluster_id}"]
        return [each.found for each in audit_evidence(directory, without_probe=True) if each.status is Status.PROBLEM]

    def is_registered(self, broker: int) -> bool:
        import asyncio

        from kafkalite.cli.doctor.zookeeper import open_store
        from zk import paths
        from zk.store import StoreError

        async def look() -> bool:
            async with open_store(self._zookeeper, given_timeout_s(), zookeeper_security()) as (store, chroot):
                return await store.exists(chroot + paths.broker(broker)) is not None

        try:
            return asyncio.run(look())
        except (OSError, StoreError) as failed:
            fail(f"ZooKeeper at {self._zookeeper}: {failed}", Exit.UNREACHABLE)

    def find_side(self, broker: int) -> Side | None:
        from kafkalite.cli.migrate.survey import Side, side_of

        async def look(admin: Admin) -> str:
            return side_of(await admin.describe_configs("broker", str(broker)))

        answer = self._ask(look)
        return Side(answer) if answer in set(Side) else None

    def run_command(self, command: str, broker: int) -> None:
        import os
        import subprocess

        done = subprocess.run(["sh", "-c", command], env=os.environ | {BROKER_VARIABLE: str(broker)}, check=False)
        if done.returncode != 0:
            raise ChildProcessError(f"exit code {done.returncode} of: {command}")

    def find_unsettled(self, broker: int, target: Side) -> str:
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
        async def elect(admin: Admin) -> str:
            await admin.elect_leaders("preferred")
            return ""

        if reason := self._ask(elect):
            note(f"not all preferred leaders were elected: {reason}")

    def _ask(self, question: Callable[[Admin], Any]) -> str:
        """Return what the question returns, or why it had no answer."""
        import asyncio

        from kafkalite.client import Admin
        from kafkalite.client.errors import ClientError

        async def ask() -> str:
            async with Admin(**admin_options()) as admin:
                return str(await question(admin))

        try:
            return asyncio.run(ask())
        except ClientError as failed:
            return str(failed)
