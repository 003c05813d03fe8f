"""`kafkalite mirror back`: its options, and how long it goes on."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalite.cli.calls import admin_options, bootstrap_option
from kafkalite.cli.calls import run as run_coroutine
from kafkalite.cli.mirror.running import connect, target_options
from kafkalite.cli.output import Exit, fail, format_count, note

if TYPE_CHECKING:
    from kafkalite.cli.mirror.files import MirrorDirectory, MirrorState
    from kafkalite.cli.mirror.way_back import WayBack

_PAUSE_S: Final = 0.5


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, exists=True, path_type=Path))
@click.option("--to", "target", required=True, metavar="HOST:PORT,...", help="Brokers of the target, as for `run`.")
@click.option(
    "--to-config",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="A properties file with the security settings for brokers of the target.",
)
@click.option("--follow", is_flag=True, help="Go on until it is stopped, while the target takes records.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="Seconds until the source has to be level, without --follow.",
)
@bootstrap_option
def back(directory: Path, target: str, to_config: Path | None, follow: bool, wait_s: float) -> None:
    """Copy what the target got after the switch of DIRECTORY back into the source, so that clients may return to it.

    Records get the offsets that they have in the target; groups' offsets and added partitions go with them. The source's brokers are of
    kafkalite, asked by their inter-broker listener, and take no records from clients meanwhile. With --follow first, and once more
    without it after the producers and consumers of the target were stopped.
    Ends with 0 when the source is level with the target, and with 7 when it is not in time; what is in the way is named.
    """
    from kafkalite.cli.mirror.files import MirrorDirectory, MirrorFileError

    files = MirrorDirectory(directory)
    options = admin_options()
    try:
        with files.lock():
            problems = run_coroutine(
                _copy_back(files, options, target_options(target, to_config), None if follow else wait_s)
            )
    except MirrorFileError as problem:
        fail(str(problem))
    for each in problems:
        note(f"Problem: {each}")
    if problems:
        raise SystemExit(int(Exit.CHECK_FAILED))
    note("level: clients may return to the source")


async def _copy_back(
    files: MirrorDirectory, source_options: dict[str, Any], to_options: dict[str, Any], wait_s: float | None
) -> list[str]:
    """Connect both sides and copy; return what is in the way when the time is over, nothing when the source is level."""
    from kafkalite.cli.mirror.clusters import Clusters
    from kafkalite.cli.mirror.way_back import WayBack
    from kafkalite.client import Admin

    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(Admin(**source_options))
        source_cluster = await connect(stack, source_options)
        target = await stack.enter_async_context(Admin(**to_options))
        target_cluster = await connect(stack, to_options)
        state = _load_state(files, source_cluster.view.cluster_id or "", target_cluster.view.cluster_id or "")
        way = WayBack(Clusters(source, source_cluster, target, target_cluster), state.topics)
        note(f"copying back from cluster {state.target_cluster} to {state.source_cluster}")
        return await _copy_until_level(way, wait_s)


async def _copy_until_level(way: WayBack, wait_s: float | None) -> list[str]:
    """Copy until the source is level, or the time is over; with None for ever. Return what is in the way."""
    import asyncio

    from kafkalite.client.errors import ClientError

    deadline_s = None if wait_s is None else time.monotonic() + wait_s
    told: list[str] = []
    while True:
        try:
            problems = await way.copy_once()
        except (OSError, TimeoutError, ClientError) as problem:
            problems = [str(problem)]
        is_level = not problems and not way.behind
        if deadline_s is not None and (is_level or time.monotonic() > deadline_s):
            for each in way.notes:
                note(f"Note: {each}")
            note(
                f"copied back: {format_count(way.offsets, 'offset')}, committed offsets of {format_count(way.groups, 'group')}"
            )
            return problems + way.behind
        if deadline_s is None and problems != told:
            for each in problems or ["nothing is in the way any more"]:
                note(each)
            told = problems
        await asyncio.sleep(_PAUSE_S)


def _load_state(files: MirrorDirectory, source_id: str, target_id: str) -> MirrorState:
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
