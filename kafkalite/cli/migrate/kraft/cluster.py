"""The cluster that moves to KRaft, for steps and checks: servers are asked directly, ZooKeeper only while it counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.cli.calls import admin_options, given_timeout_s
from kafkalite.cli.doctor.findings import Finding, Status, ok
from kafkalite.cli.migrate.kraft.forms import Form, Role
from kafkalite.cli.migrate.stepping import GivenCluster
from kafkalite.cli.output import Exit, fail
from kafkalite.server_addresses import address_text

_POLL_S: Final = 0.5

if TYPE_CHECKING:
    from kafkalite.cli.migrate.kraft.phases import Voter
    from kafkalite.cli.migrate.kraft.plan import KraftPlan
    from kafkalite.cli.migrate.kraft.survey import KraftSurvey, Server, ZooKeeperState
    from kafkalite.cli.migrate.sequence import Replacement, Target
    from kafkalite.client import Admin
    from zk.store import Store

FORM_VARIABLE: Final = "KAFKALITE_FORM"
"""Environment variable that tells an operator's command which form the server takes."""


def survey_move(voters: Sequence[Voter], zookeeper: str | None) -> KraftSurvey:
    """Return the survey of servers, and of ZooKeeper unless that is None. What cannot be reached ends the command."""
    from dataclasses import replace

    from kafkalite.cli.admin_call import ask_cluster
    from kafkalite.cli.doctor.cluster import security_options
    from kafkalite.cli.migrate.kraft.survey import survey_servers

    timeout_s, security = given_timeout_s(), security_options(admin_options())

    async def look(admin: Admin) -> KraftSurvey:
        return await survey_servers(admin, voters, security, timeout_s)

    found = ask_cluster(look)
    return found if zookeeper is None else replace(found, zookeeper=read_znodes(zookeeper))


def read_znodes(zookeeper: str) -> ZooKeeperState:
    """Return what znodes say of the move. What cannot be read ends the command."""
    from kafkalite.cli.migrate.kraft.survey import survey_znodes

    found: ZooKeeperState = GivenCluster("", zookeeper).read_zookeeper(survey_znodes)
    return found


def find_epochs(zookeeper: str) -> list[Finding]:
    """Return what doctor finds of znodes, such as partitions of a later epoch than `/controller_epoch` (KAFKA-20488)."""
    from kafkalite.cli.doctor import znodes

    async def look(store: Store, chroot: str) -> list[Finding]:
        return znodes.findings((await znodes.find_inconsistencies(store, chroot))[1])

    found: list[Finding] = GivenCluster("", zookeeper).read_zookeeper(look)
    return found


def find_later_epochs(zookeeper: str) -> list[str]:
    """Return which partitions no controller on ZooKeeper would elect a leader for, were it needed (KAFKA-20488)."""
    from kafkalite.cli.doctor import znodes

    async def look(store: Store, chroot: str) -> list[str]:
        repairs = znodes.judge(await znodes.snapshot(store, chroot))
        return [f"{each.found}; before a broker is stopped: {znodes.FIX}" for each in repairs if each.epoch_at_least]

    found: list[str] = GivenCluster("", zookeeper).read_zookeeper(look)
    return found


def needs_zookeeper(form: Form) -> bool:
    """True if ZooKeeper still counts where a server takes this form."""
    return form is not Form.KAFKA_4


class MovingCluster(GivenCluster):
    """The `Cluster` of `replacing` while servers take another form."""

    def __init__(
        self,
        plan: KraftPlan,
        replacement: Replacement,
        role: Role,
        zookeeper: str,
        topics: tuple[str, ...],
        last: int,
        *,
        is_back: bool,
    ) -> None:
        super().__init__(plan.cluster_id, zookeeper, topics, last)
        self._plan, self._role, self._is_back = plan, role, is_back
        self._form, self._server = Form(replacement.target), replacement.broker
        self._voters = {each.id: address_text(each.host, each.port) for each in plan.voters}
        self._environment = {FORM_VARIABLE: self._form}
        self._addresses = {each.server: each.address for each in plan.steps}

    def find_foreign(self) -> list[str]:
        """Return in what the cluster is not the plan's, and, before a rollback, what has to be done first."""
        from kafkalite.cli.migrate.kraft.places import find_closed_ways

        found = super().find_foreign() if needs_zookeeper(self._form) and not self._is_finalized() else []
        if found or not self._is_back:
            return found
        servers = [self._ask_server(each) for each in dict.fromkeys([*self._addresses, *self._voters])]
        if closed := list(find_closed_ways(servers, self._form)):
            return closed
        return self._find_unreleased() if self._form is Form.ZOOKEEPER else []

    def _is_finalized(self) -> bool:
        return self._role is Role.CONTROLLER or (self._is_back and self._form is Form.KRAFT)

    def _find_unreleased(self) -> list[str]:
        """Return why a broker would find no controller on ZooKeeper, or what it leads no leader while it is stopped."""
        state = read_znodes(self._zookeeper)
        is_running = self._ask_server(self._server).problem is None
        if state.seat is None and is_running:
            return ["/controller is absent: wait until a broker is the controller, no broker is stopped before"]
        if (state.seat is not None and state.seat.is_of_kraft) or (
            state.migration is not None and state.migration.metadata_offset > 0
        ):
            return [
                "the KRaft quorum owns the cluster, or has left /migration: stop the controllers, then kafkalite migrate kraft release"
            ]
        return find_later_epochs(self._zookeeper) if is_running else []

    def find_problems(self, target: Target) -> list[str]:
        from kafkalite.cli.migrate.kraft.checks import judge

        zookeeper = self._zookeeper if needs_zookeeper(self._form) else None
        survey = survey_move(self._plan.voters, zookeeper)
        voters = [f"{each.host}:{each.port}" for each in self._plan.voters]
        findings = judge(survey, voters, self._form, self._role)
        if zookeeper is not None and self._form is Form.MIGRATION:
            findings += find_epochs(zookeeper)
        return [f"{each.check}: {each.found} ({each.remedy})" for each in findings if each.status is Status.PROBLEM]

    def is_registered(self, broker: int) -> bool:
        return self._ask_server(broker).problem is None

    def find_side(self, broker: int) -> Target | None:
        return self._ask_server(broker).form

    def find_unsettled(self, broker: int, target: Target) -> str:
        server = self._ask_server(broker)
        if server.problem is not None:
            return f"{server.role} {broker}: {server.problem}"
        if server.form is not target:
            return f"{server.role} {broker} is {server.form}"
        if reason := self._ask(lambda admin: self._find_unhealthy(admin, broker)):
            return reason
        return self._find_unled() if server.role is Role.CONTROLLER else self._find_uncopied()

    async def _find_unhealthy(self, admin: Admin, broker: int) -> str:
        from kafkalite.administration.cluster_health import check_cluster

        if self._role is Role.BROKER and broker not in {each.id for each in (await admin.describe_cluster()).brokers}:
            return f"broker {broker} is not registered"
        return "; ".join(
            f"{each.check}: {', '.join(each.problems[:5])}" for each in await check_cluster(admin) if not each.healthy
        )

    def _find_unled(self) -> str:
        """Return whether a controller does not know the leader of its quorum."""
        servers = [self._ask_server(each.id) for each in self._plan.voters]
        waiting = [each.name for each in servers if each.problem is not None or each.leader < 0]
        return f"without a leader of the quorum: {', '.join(waiting)}" if waiting else ""

    def _find_uncopied(self) -> str:
        """Return whether the quorum copies metadata still, behind the last broker that came into migration mode."""
        if self._form is not Form.MIGRATION or self._is_back:
            return ""
        state = read_znodes(self._zookeeper)
        brokers = [each.server for each in self._plan.steps if each.form is Form.MIGRATION]
        if any(self._ask_server(each).form is Form.ZOOKEEPER for each in brokers):
            return ""
        return (
            ""
            if state.is_copied
            else "the quorum has not copied the metadata yet: its leader's log says what it waits for"
        )

    def _ask_server(self, number: int) -> Server:
        """Return a server of the plan by its own answers."""
        import asyncio

        from kafkalite.cli.doctor.cluster import security_options
        from kafkalite.cli.migrate.kraft.survey import ask_server
        from kafkalite.server_addresses import parse_servers

        ((host, port),) = parse_servers((self._addresses | self._voters)[number])
        role = Role.CONTROLLER if number in self._voters else Role.BROKER
        return asyncio.run(ask_server(host, port, role, security_options(admin_options()), given_timeout_s(), number))


def find_claim(voters: Sequence[Voter], zookeeper: str, *, are_stopped: bool) -> str:
    """Return the znodes by which a quorum claims the cluster, empty when there are none.

    Refuses, and ends the command, where the claim may be that of a quorum that lives, or of another cluster; see `find_release_refusals`.
    """
    from kafkalite.cli.migrate.kraft.claims import find_release_refusals
    from zk import paths

    survey = survey_move(voters, zookeeper)
    if refusals := find_release_refusals(survey, {each.id for each in voters}, are_stopped=are_stopped):
        fail("; ".join(refusals), Exit.CHECK_FAILED)
    state = survey.zookeeper
    claims = [
        (paths.CONTROLLER, state is not None and state.seat is not None and state.seat.is_of_kraft),
        (paths.MIGRATION, state is not None and state.migration is not None),
    ]
    return " and ".join(path for path, is_there in claims if is_there)


def release_claim(zookeeper: str) -> str:
    """Delete `/controller` of a quorum and `/migration`, both or none, and return their names. What fails ends the command."""
    found: str = GivenCluster("", zookeeper).read_zookeeper(delete_claim)
    return found


async def delete_claim(store: Store, chroot: str) -> str:
    """Delete both znodes at the versions that were read, or none. Returns their names. Raises StoreError."""
    from zk import paths
    from zk.store import Delete, RolledBackError, StoreError
    from zk.subtree import read_if_there
    from zk.znodes import ControllerSeat

    seat, migration = [await read_if_there(store, chroot + each) for each in (paths.CONTROLLER, paths.MIGRATION)]
    operations = []
    if seat is not None and ControllerSeat.decode(seat[0]).is_of_kraft:
        operations.append(Delete(chroot + paths.CONTROLLER, seat[1].version))
    if migration is not None:
        operations.append(Delete(chroot + paths.MIGRATION, migration[1].version))
    results = await store.multi(operations) if operations else []
    for each in results:
        if isinstance(each, StoreError) and not isinstance(each, RolledBackError):
            raise each
    return " and ".join(each.path.removeprefix(chroot) for each in operations)


def wait_for_controller(voters: Sequence[Voter], zookeeper: str, wait_s: float) -> list[Finding]:
    """Return the findings about znodes once a broker is the controller and all is in sync. Ends the command when the time is up."""
    import time

    deadline_s = time.monotonic() + wait_s
    while True:
        survey = survey_move(voters, zookeeper)
        seat = survey.zookeeper.seat if survey.zookeeper is not None else None
        if seat is not None and not seat.is_of_kraft and not survey.unhealthy:
            return [ok("controller", f"broker {seat.broker_id}"), *find_epochs(zookeeper)]
        if time.monotonic() > deadline_s:
            fail("; ".join(survey.unhealthy) or "no broker has become the controller", Exit.UNREACHABLE)
        time.sleep(_POLL_S)
