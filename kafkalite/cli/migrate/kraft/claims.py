"""Whether the claim of a KRaft quorum on a cluster may be deleted. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kafkalite.cli.migrate.kraft.forms import Form
from kafkalite.cli.migrate.kraft.survey import KraftSurvey, Server


def find_release_refusals(survey: KraftSurvey, voters: Collection[int], *, are_stopped: bool) -> list[str]:
    """Return why `/controller` and `/migration` must stay: another cluster, a quorum that may live, a broker that may need it.

    `voters` are the ids of the controllers that are named. With `are_stopped` the operator answers for those that say nothing.
    """
    return [
        *_find_foreign(survey, voters),
        *(reason for each in survey.controllers if (reason := _judge_controller(each, are_stopped=are_stopped))),
        *(reason for each in survey.brokers if (reason := _judge_broker(each))),
    ]


def _find_foreign(survey: KraftSurvey, voters: Collection[int]) -> Iterator[str]:
    state = survey.zookeeper
    if state is None:
        return
    if state.cluster_id != survey.cluster_id:
        told = f"{survey.cluster_id or 'none'}, that in ZooKeeper {state.cluster_id or 'none'}"
        yield f"the brokers' cluster id is {told}: name servers of one cluster"
    claims = {}
    if state.seat is not None and state.seat.is_of_kraft:
        claims["/controller"] = state.seat.broker_id
    if state.migration is not None and state.migration.controller_id >= 0:
        claims["/migration"] = state.migration.controller_id
    for path, number in claims.items():
        if number not in voters:
            yield f"{path} is of controller {number}, which is not named: name its quorum in --controllers"


def _judge_controller(server: Server, *, are_stopped: bool) -> str:
    if server.problem is None:
        return f"{server.name} at {server.address} answers: stop it first"
    if server.is_refused or are_stopped:
        return ""
    return (
        f"the controller at {server.address} may run: {server.problem}. "
        "See to it that it is stopped, then give --controllers-stopped"
    )


def _judge_broker(server: Server) -> str:
    if server.problem is not None:
        return f"broker {server.id} may be on KRaft: {server.problem}. Start it, or see why it does not answer"
    if server.form in (Form.KRAFT, Form.KAFKA_4):
        return f"broker {server.id} is {server.form}: take it back first, kafkalite migrate kraft rollback"
    return ""
