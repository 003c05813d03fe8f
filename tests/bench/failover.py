"""How long a partition takes no records when a broker dies: `python -m tests.bench.failover`.

Three brokers with the settings that users have, sessions of 18 s included; partitions of factor 3, min.insync.replicas 2. A client with its
own settings sends one record at a time with acks=all to one partition. Counted is the time from SIGKILL to the first acknowledgement of a
record that was sent or retried after it. Then the broker is started again and leads what it led, and the next round begins.

| Victim | Which is |
|---|---|
| leader | the leader of the written partition, which is not the controller |
| controller | the leader of the written partition, which is the controller too |
| follower | a follower of the written partition, so that acks=all waits for one that does not answer |
| vanish | as leader, but its host vanishes: iptables loses all packets to and from it (as root on Linux, in a network of its own) |

| Stage | Ends when |
|---|---|
| exit | the process has ended |
| session | ZooKeeper has ended its session: its registration is gone |
| seat | another broker is the controller |
| election | the partition's state in ZooKeeper names another leader, or an ISR without the follower |
| client | the client has its acknowledgement |
| total | these together |
| newcomer | of a vanished host: a client that connects after the election has its acknowledgement |

The stage of the client is its own as much as the brokers': librdkafka 2.16 looks for a new leader once a second, and a second later again
when the answer that names the new leader no longer has the dead broker among the brokers. `--client kafkalite` asks sooner.

Clients of a vanished host wait for a request's time to end (30 s and more by default), so `newcomer` says what the brokers took, and
`total` what that client did. With --beside-kafka Apache Kafka's brokers are measured in the same run, by its own start script's flags.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.local.cluster_facts import ClusterFacts
from tests.bench.failover_clients import CLIENTS
from tests.bench.failover_figures import STAGES, VICTIMS, Victim, stages_ms, summarize_stages
from tests.bench.failover_rounds import PROPERTIES, Failovers, failover_cluster
from tests.bench.machine import machine, ours
from tests.peers import apache_kafka
from tests.system import network

OURS: Final = "kafkalite"
APACHE: Final = "Apache Kafka"
LOGS: Final = Path(__file__).parent / "results"
_WIDTH: Final = 140
Measured = dict[tuple[str, int, Victim], list[dict[str, float]]]
"""Stages of each round in ms, by side, partitions and victim."""


class Bench:
    """What is asked for, and what was measured until now."""

    def __init__(
        self,
        rounds: int,
        zookeepers: int,
        client: str,
        properties: dict[str, str],
        console: Console,
        *,
        end_sessions: bool,
        verbose: bool,
    ) -> None:
        self._rounds, self._zookeepers, self._client, self._properties = rounds, zookeepers, client, properties
        self._console, self._end_sessions, self._verbose = console, end_sessions, verbose
        self.measured: Measured = {}
        self.creations_s: dict[tuple[str, int], float] = {}
        self.problems: list[str] = []
        """What clients reported, which goes on after it."""

    def measure(self, side: str, partitions: int, victims: Sequence[Victim]) -> None:
        """Run all rounds of one side and size."""
        command = BROKER_COMMAND if side == OURS else apache_kafka.script_command(with_archive=True)
        properties = self._properties if side == OURS else {}
        logs = LOGS / f"failover-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}-logs"
        try:
            with (
                failover_cluster(command, properties, self._zookeepers, logs=logs) as cluster,
                ClusterFacts(cluster.zookeeper_connect) as facts,
            ):
                failovers = Failovers(cluster, facts, partitions, self._client, end_sessions=self._end_sessions)
                self.creations_s[side, partitions] = failovers.create_idle()
                self._tell(f"{side}, {partitions} partitions, made in {self.creations_s[side, partitions]:.1f} s")
                for number in range(1, self._rounds + 1):
                    for victim in victims:
                        self._run_round(failovers, side, partitions, victim, number)
        except Exception:
            self._console.print(f"broker logs are in {logs}")
            raise

    def _run_round(self, failovers: Failovers, side: str, partitions: int, victim: Victim, number: int) -> None:
        moments, problems = failovers.run_round(victim)
        stages = stages_ms(moments)
        self.measured.setdefault((side, partitions, victim), []).append(stages)
        self.problems += [f"{side}, {victim}, round {number}: {problem}" for problem in problems]
        told = ", ".join(f"{name} {took_ms:.0f}" for name, took_ms in stages.items())
        self._tell(f"{side}, {partitions} partitions, {victim}, round {number}: {told} ms")

    def _tell(self, line: str) -> None:
        if self._verbose:
            self._console.print(line, soft_wrap=True, highlight=False)


def table_of(measured: Measured) -> Table:
    """Seconds from the kill: percentiles of the total, and medians of the stages."""
    title = "seconds from kill -9 to the next acknowledged record, and medians of its stages"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    for name in ("of", "partitions", "victim", "rounds", "p50", "p90", "max", *STAGES, "newcomer, p50", "max"):
        table.add_column(name, justify="left" if name in ("of", "victim") else "right", no_wrap=True)
    for (side, partitions, victim), rounds in measured.items():
        found = summarize_stages(rounds)
        medians = [f"{found[name].p50 / 1e3:.3f}" if name in found else "-" for name in STAGES]
        newcomer = [f"{found['newcomer'][place] / 1e3:.3f}" if "newcomer" in found else "-" for place in (0, 2)]
        totals = [f"{each / 1e3:.3f}" for each in found["total"]]
        table.add_row(side, f"{partitions:,}", victim, str(len(rounds)), *totals, *medians, *newcomer)
    return table


def content_of(bench: Bench, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the result file holds: everything that was measured, and where."""
    return {
        "at": datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
        "command": " ".join(["python -m tests.bench.failover", *map(shlex.quote, sys.argv[1:])]),
        "machine": machine(),
        "sides": {OURS: ours(), APACHE: f"{apache_kafka.VERSION} with ZooKeeper"},
        "settings": settings,
        "creation, s": [
            {"side": side, "partitions": partitions, "seconds": took_s}
            for (side, partitions), took_s in bench.creations_s.items()
        ],
        "measured": [
            {
                "side": side,
                "partitions": partitions,
                "victim": victim,
                "summary, ms": {name: found._asdict() for name, found in summarize_stages(rounds).items()},
                "rounds, ms": rounds,
            }
            for (side, partitions, victim), rounds in bench.measured.items()
        ],
        "problems of clients": bench.problems,
    }


def parse_properties(given: Sequence[str]) -> dict[str, str]:
    """Return settings given as `key=value`. Raises BadParameter."""
    if wrong := [each for each in given if "=" not in each]:
        raise click.BadParameter(f"{wrong[0]!r} is not key=value", param_hint="-X")
    return dict(each.split("=", 1) for each in given)


@click.command(help=__doc__)
@click.option("--rounds", default=50, show_default=True, help="Deaths of each kind of victim.")
@click.option("--partitions", multiple=True, type=int, default=(300,), show_default=True, help="Can be repeated.")
@click.option(
    "--victim",
    "victims",
    multiple=True,
    type=click.Choice(VICTIMS),
    default=VICTIMS,
    show_default=True,
    help="Can be repeated.",
)
@click.option("--client", type=click.Choice(CLIENTS), default=CLIENTS[0], show_default=True)
@click.option(
    "--zookeepers", type=click.Choice(["1", "3"]), default="1", show_default=True, help="Servers of the ensemble."
)
@click.option("-X", "properties", multiple=True, help="key=value for our brokers; can be repeated.")
@click.option("--beside-kafka", is_flag=True, help="Measure Apache Kafka too.")
@click.option(
    "--end-sessions", is_flag=True, help="End the victim's session at once, so that what follows it is measured alone."
)
@click.option("--verbose", is_flag=True, help="A line for each round.")
@click.option("--output", type=click.Path(path_type=Path), help="Write what was measured there, as JSON.")
def main(
    rounds: int,
    partitions: Sequence[int],
    victims: Sequence[Victim],
    client: str,
    zookeepers: str,
    properties: Sequence[str],
    beside_kafka: bool,
    end_sessions: bool,
    verbose: bool,
    output: Path | None,
) -> None:
    console = Console(width=max(Console().width, _WIDTH))
    given = parse_properties(properties)
    if "vanish" in victims:
        if beside_kafka:
            apache_kafka.fetch()
        network.enter_own_network()
    bench = Bench(rounds, int(zookeepers), client, given, console, end_sessions=end_sessions, verbose=verbose)
    load = [os.getloadavg()[0]]
    try:
        for count in partitions:
            for side in (OURS, APACHE) if beside_kafka else (OURS,):
                bench.measure(side, count, victims)
    finally:
        load.append(os.getloadavg()[0])
        if bench.measured:
            console.print(table_of(bench.measured))
        if output is not None:
            settings = {"rounds": rounds, "client": client, "zookeepers": int(zookeepers), "load": load}
            settings |= {"sessions ended by the bench": end_sessions}
            settings |= {"properties": PROPERTIES, "properties of ours": given}
            output.write_text(json.dumps(content_of(bench, settings), indent=2) + "\n")
            console.print(f"written to {output}")


if __name__ == "__main__":
    main()
