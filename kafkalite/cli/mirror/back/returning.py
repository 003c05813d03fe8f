"""`kafkalite mirror back`: its options, and how long it goes on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalite.cli.calls import admin_options, bootstrap_option, run_long
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.mirror.running import connect, switched_mirror, target_options
from kafkalite.cli.output import Exit, fail, fail_each, format_count, note, output_option, write_rows

if TYPE_CHECKING:
    from kafkalite.cli.mirror.back.bringing_back import BringingBack
    from kafkalite.cli.mirror.back.changes import Change, ChangePlan, WantedBack
    from kafkalite.cli.mirror.back.deleted_records import Starts
    from kafkalite.cli.mirror.back.way_back import WayBack
    from kafkalite.cli.mirror.files import MirrorDirectory, MirrorState

_PAUSE_S: Final = 0.5
_CHANGES_S: Final = 10.0
"""Between two comparisons of topics, settings, ACLs and quotas with --follow."""
_SHOWN: Final = 20
"""Topics that are named after a wrong `--leave`."""
_COLUMNS: Final = ("kind", "name", "key", "in_source", "becomes")


@click.command(short_help="Copy back what the target got after the switch.")
@switched_mirror
@click.option("--follow", is_flag=True, help="Go on until it is stopped, while the target takes records.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="Seconds until the source has to be level, without --follow.",
)
@click.option(
    "--delete-topics",
    is_flag=True,
    help="Delete topics in the source that were deleted in the target after the switch; asks before. Not with --follow.",
)
@click.option(
    "--delete-records",
    is_flag=True,
    help="Delete records in the source before the target's log starts, which DeleteRecords or retention moved; asks before. Not with "
    "--follow.",
)
@click.option(
    "--leave",
    "left",
    multiple=True,
    metavar="NAME",
    help="Do not bring back this topic, made in the target since the switch; may be repeated.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    help="Replicas in the source of topics that were made in the target.  [default: as in the target]",
)
@click.option("--dry-run", is_flag=True, help="Only show what administrators changed, and what would be done about it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option()
@bootstrap_option
def back(
    directory: Path,
    target: str,
    to_config: Path | None,
    follow: bool,
    wait_s: float,
    delete_topics: bool,
    delete_records: bool,
    left: tuple[str, ...],
    replication_factor: int | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Copy what the target got after the switch of DIRECTORY back into the source, so that clients may return to it.

    Records get the offsets that they have in the target; groups' offsets go with them. So do topics that were made in the target, added
    partitions, and settings of topics, ACLs and client quotas that were changed there; all such changes are printed. The source's brokers
    are of kafkalite, asked by their inter-broker listener, and take no records from clients meanwhile. With --follow first, and once more
    without it after the producers and consumers of the target were stopped.
    Ends with 0 when the source is level with the target, and with 7 when it is not in time; what is in the way is named.
    """
    from kafkalite.cli.mirror.back.changes import WantedBack
    from kafkalite.cli.mirror.files import MirrorDirectory, MirrorFileError

    if follow and (delete_topics or delete_records or dry_run):
        raise click.UsageError(
            "--follow goes with none of --delete-topics, --delete-records and --dry-run: they are for one comparison"
        )
    files = MirrorDirectory(directory)
    options, to_options = admin_options(), target_options(target, to_config)
    wanted = WantedBack(left, replication_factor)
    way = _Way(files, wanted, None if follow else wait_s, delete_topics, delete_records, dry_run, yes, output)
    try:
        with files.lock():
            problems = run_long(way.go(options, to_options))
    except MirrorFileError as problem:
        fail(str(problem))
    for each in problems:
        note(f"Problem: {each}")
    if problems:
        raise SystemExit(int(Exit.CHECK_FAILED))
    note("nothing stands against it" if dry_run else "level: clients may return to the source")


@dataclass(frozen=True, slots=True)
class _Way:
    """One call of the command; without `wait_s` it follows the target for ever."""

    files: MirrorDirectory
    wanted: WantedBack
    wait_s: float | None
    deletes_topics: bool
    deletes_records: bool
    is_dry: bool
    yes: bool
    output: str

    async def go(self, source_options: dict[str, Any], to_options: dict[str, Any]) -> list[str]:
        """Connect both sides and copy; return what is in the way when the time is over, nothing when the source is level."""
        from kafkalite.cli.mirror.back.bringing_back import BringingBack
        from kafkalite.cli.mirror.back.way_back import WayBack
        from kafkalite.cli.mirror.clusters import Clusters
        from kafkalite.client import Admin

        async with AsyncExitStack() as stack:
            source = await stack.enter_async_context(Admin(**source_options))
            source_cluster = await connect(stack, source_options)
            target = await stack.enter_async_context(Admin(**to_options))
            target_cluster = await connect(stack, to_options)
            ids = source_cluster.view.cluster_id or "", target_cluster.view.cluster_id or ""
            state = load_switched_state(self.files, *ids)
            clusters = Clusters(source, source_cluster, target, target_cluster)
            wanted = replace(self.wanted, deletes=frozenset(state.topics)) if self.deletes_topics else self.wanted
            changes = BringingBack(clusters, self.files, state, wanted)
            way = WayBack(clusters, state.topics, changes.is_left)
            await self._require_leavable(changes)
            if self.is_dry or self.deletes_topics:
                plan = await changes.plan()
                if self.is_dry:
                    return await self._show(changes, plan, await way.find_moved_starts())
                changes.wanted = self._ask_deletions(plan.deletions)
            if self.deletes_records:
                way.deletes = self._ask_records(await way.find_moved_starts())
            note(f"copying back from cluster {state.target_cluster} to {state.source_cluster}")
            return await self._copy_until_level(way, changes)

    async def _require_leavable(self, changes: BringingBack) -> None:
        """End the command if a word of `--leave` is no topic that was made in the target since the switch."""
        if not self.wanted.left:
            return
        known = await changes.find_leavable()
        if known is None:
            why = "the directory does not tell which topics were made in the target since the switch, and none is brought back"
            fail(f"--leave has no effect: {why}", Exit.USAGE)
        if wrong := [each for each in self.wanted.left if each not in known]:
            fail_each([_describe_unleavable(each, known) for each in wrong], Exit.USAGE)

    async def _show(self, changes: BringingBack, plan: ChangePlan, starts: Starts) -> list[str]:
        """Show a plan; return what stands against it."""
        from kafkalite.cli.mirror.back.deleted_records import list_changes, tell_kept

        shown = plan.changes + (list_changes(starts) if self.deletes_records else [])
        write_rows([each.row for each in shown], self.output, columns=_COLUMNS, name="name")
        for each in changes.notes + ([] if self.deletes_records else tell_kept(starts)):
            note(f"Note: {each}")
        return plan.problems + plan.uncopied + await changes.validate(plan)

    def _ask_records(self, starts: Starts) -> Starts:
        """Return the log starts that the source gets once somebody has agreed to it."""
        from kafkalite.cli.mirror.back.deleted_records import describe

        if starts:
            confirm(f"Delete in the source the records of {describe(starts)}?", self.yes)
        return starts

    def _ask_deletions(self, topics: list[str]) -> WantedBack:
        """Return what is wanted once somebody has agreed to the deletions."""
        if topics:
            confirm(f"Delete {', '.join(topics)} in the source, with all records?", self.yes)
        return replace(self.wanted, deletes=frozenset(topics))

    async def _copy_until_level(self, way: WayBack, changes: BringingBack) -> list[str]:
        """Copy until the source is level, or the time is over. Return what is in the way."""
        import asyncio

        deadline_s = None if self.wait_s is None else time.monotonic() + self.wait_s
        compared_s = -_CHANGES_S
        shown: dict[str, Change] = {}
        of_changes: tuple[list[str], list[str]] = [], []
        told: list[str] = []
        while True:
            if deadline_s is not None or time.monotonic() > compared_s + _CHANGES_S:
                of_changes, compared_s = await _bring_back(changes), time.monotonic()
                self._show_new(changes, shown)
            problems = of_changes[0] + await _copy_once(way)
            behind = of_changes[1] + way.behind
            if deadline_s is not None and (not problems + behind or time.monotonic() > deadline_s):
                return problems + behind + await self._sum_up(way, changes)
            if deadline_s is None and problems != told:
                for each in problems or ["nothing is in the way any more"]:
                    note(each)
                told = problems
            await asyncio.sleep(_PAUSE_S)

    def _show_new(self, changes: BringingBack, shown: dict[str, Change]) -> None:
        """Tell the changes that were planned since the last call while the target is followed."""
        for key, each in changes.planned.items():
            if self.wait_s is None and shown.get(key) != each:
                note(f"in the source: {each}")
        shown |= changes.planned

    async def _sum_up(self, way: WayBack, changes: BringingBack) -> list[str]:
        """Show what was planned, and say what of it the source has and what was copied; return which records it still has to delete."""
        from kafkalite.cli.mirror.back.deleted_records import list_changes, tell_kept

        kept, problems = await _find_moved_starts(way)
        missing = {place for place in way.deletes if place in kept and kept[place][0] < way.deletes[place][1]}
        rows = [each.row for each in [*changes.planned.values(), *list_changes(way.deletes)]]
        write_rows(rows, self.output, columns=_COLUMNS, name="name")
        for each in changes.notes + tell_kept({place: kept[place] for place in kept.keys() - way.deletes.keys()}):
            note(f"Note: {each}")
        done, planned = changes.count()
        done, planned = done + len(way.deletes) - len(missing), planned + len(way.deletes)
        groups = format_count(way.groups, "group")
        note(f"copied back: {format_count(way.offsets, 'offset')}, committed offsets of {groups}")
        note(f"changed in the source: {done} of {format_count(planned, 'planned change')}")
        return problems + [f"{place}: records are not deleted in the source yet" for place in sorted(missing)]


def _describe_unleavable(name: str, known: Sequence[str]) -> str:
    """Return what is wrong with a word of `--leave`, and which ones are right."""
    from kafkalite.suggestions import did_you_mean

    made = ", ".join(known[:_SHOWN]) + (f" and {len(known) - _SHOWN} others" if len(known) > _SHOWN else "")
    right = f"those that were: {made}" if known else "none was"
    return f"--leave {name}: no topic of that name was made in the target since the switch; {right}{did_you_mean(name, known)}"


async def _find_moved_starts(way: WayBack) -> tuple[Starts, list[str]]:
    """Return the partitions that begin later in the target, and what is wrong."""
    from kafkalite.client.errors import ClientError

    try:
        return await way.find_moved_starts(), []
    except (OSError, TimeoutError, ClientError) as problem:
        return {}, [f"where partitions begin is not known: {problem}"]


async def _bring_back(changes: BringingBack) -> tuple[list[str], list[str]]:
    """Return what is wrong, and what the source still lacks of administrators' changes."""
    from kafkalite.client.errors import ClientError

    try:
        return await changes.bring_back()
    except (OSError, TimeoutError, ClientError) as problem:
        return [str(problem)], []


async def _copy_once(way: WayBack) -> list[str]:
    """Copy what is new, and return what is wrong."""
    from kafkalite.client.errors import ClientError

    try:
        return await way.copy_once()
    except (OSError, TimeoutError, ClientError) as problem:
        return [str(problem)]


def load_switched_state(files: MirrorDirectory, source_id: str, target_id: str) -> MirrorState:
    """Return what the mirror knew when it switched. Raises MirrorFileError for another directory."""
    from kafkalite.cli.mirror.files import MirrorFileError

    state = files.read_state()
    if state is None or not state.is_switched:
        what = "after an interrupted switch call `kafkalite mirror run` and `kafkalite mirror switch` again"
        raise MirrorFileError(f"{files.path} is of no mirror that has switched; {what}")
    if (state.source_cluster, state.target_cluster) != (source_id, target_id):
        was = f"from {state.source_cluster} to {state.target_cluster}"
        raise MirrorFileError(f"{files.path} is of a mirror {was}, not from {source_id} to {target_id}")
    return state
