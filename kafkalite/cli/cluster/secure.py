"""`kafkalite cluster secure|users`: secure a cluster in containers before its start, and create its users afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalite.cli.output import Exit, fail, note, write_line

if TYPE_CHECKING:
    from kafkalite.local.secured import ClusterSecurity

_RETRY_S = 1.0


@click.command(short_help="Make certificates, users' passwords and settings files.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host", "hosts", multiple=True, help="A name or address of a server, beside localhost; may be repeated."
)
@click.option(
    "--mounted-at",
    type=click.Path(path_type=Path),
    help="Where the servers find the folder.  [default: where it is]",
)
@click.option("-b", "--bootstrap-server", default="localhost:9092", show_default=True, help="For the files of clients.")
@click.option("-z", "--zookeeper", default="localhost:2182", show_default=True, help="For the files of clients.")
@click.option("--dry-run", is_flag=True, help="Only say whether certificates would be made.")
def secure(
    directory: Path,
    hosts: tuple[str, ...],
    mounted_at: Path | None,
    bootstrap_server: str,
    zookeeper: str,
    dry_run: bool,
) -> None:
    """Create a certificate authority, certificates, users' passwords, and settings files for servers and clients in DIRECTORY.

    broker.env and zookeeper.env have the variables of the image. What is there already is kept. All is readable by its owner only.
    """
    from kafkalite.config.environment import as_variables
    from kafkalite.local.secured import ClusterSecurity, write_private

    security = ClusterSecurity(directory.resolve(), hosts, mounted_at)
    if dry_run:
        what = "certificates and passwords stay" if security.is_made else "certificates and passwords would be made"
        note(f"{directory}: {what}, files would be written")
        return
    try:
        security.make()
        files = security.write_client_files(bootstrap_server, zookeeper)
        for name, variables in (
            ("broker.env", as_variables(security.security_settings())),
            ("zookeeper.env", {"KAFKA_OPTS": security.java_options_of_zookeeper()}),
        ):
            write_private(security.folder / name, "".join(f"{key}={text}\n" for key, text in variables.items()))
    except OSError as problem:
        fail(f"{directory}: {problem.strerror}")
    for line in security.client_lines({purpose: str(path) for purpose, path in files.items()}):
        write_line(line)


@click.command(short_help="Create users and their ACLs in a running cluster.")
@click.argument("directory", type=click.Path(file_okay=False, exists=True, path_type=Path))
@click.option("-b", "--bootstrap-server", required=True, help="The listener BROKERS, where certificates let in.")
@click.option("--timeout", type=float, default=120.0, show_default=True, help="Seconds to wait for the brokers.")
@click.option("--dry-run", is_flag=True, help="Only say who would get which rights.")
def users(directory: Path, bootstrap_server: str, timeout: float, dry_run: bool) -> None:
    """Give a running cluster the users of DIRECTORY, and what they may do. Changes nothing the second time."""
    import asyncio

    from kafkalite.local.secured import ClusterSecurity

    security = ClusterSecurity(directory.resolve())
    if not security.is_made:
        fail(f"{directory}: there is no passwords.properties; kafkalite cluster secure makes it", Exit.NOT_FOUND)
    if dry_run:
        for right in security.rights():
            note(f"{right}")
        return
    try:
        security.make()
        asyncio.run(_make_users(security, bootstrap_server, timeout))
    except TimeoutError as problem:
        fail(str(problem), Exit.UNREACHABLE)
    except OSError as problem:
        fail(f"{directory}: {problem}")


async def _make_users(security: ClusterSecurity, bootstrap_server: str, timeout_s: float) -> None:
    """Create the users; brokers that are still starting are tried again."""
    import asyncio

    from kafkalite.client import Admin
    from kafkalite.client.errors import ClientError

    why = ""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    async with Admin(bootstrap_servers=bootstrap_server, **security.admin_options()) as admin:
                        await security.make_users(admin)
                    return
                except ClientError as problem:
                    why = str(problem)
                await asyncio.sleep(_RETRY_S)
    except TimeoutError:
        raise TimeoutError(f"{bootstrap_server}: not within {timeout_s:g} s: {why}") from None
