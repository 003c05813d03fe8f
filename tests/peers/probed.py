"""The probe of `kafkalite migrate` and a group that reads what it writes, while servers of a cluster are replaced."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

import confluent_kafka

from kafkalite.cli.migrate.evidence import LEDGER_FILE, read_ledger
from kafkalite.local.broker_process import wait_until

TOPIC: Final = "probed"
GROUP: Final = "goes-on"
LEFT: Final = (
    confluent_kafka.KafkaError.UNKNOWN_MEMBER_ID,
    confluent_kafka.KafkaError.ILLEGAL_GENERATION,
    confluent_kafka.KafkaError.REBALANCE_IN_PROGRESS,
)
"""A member that gets these is none any more."""
NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Operated(Protocol):
    """A cluster that an operator reaches. `environment` are the variables of the operator's commands."""

    servers: str
    environment: Mapping[str, str]

    def call(self, *words: str) -> str:
        """Run `kafkalite migrate` with these words; it succeeds. Returns its output."""


class Group(threading.Thread):
    """A group of one member that reads the probe's topic all the time, and commits what it has read before it reads on.

    `security` are settings of librdkafka.
    """

    def __init__(self, servers: str, topic: str = TOPIC, security: Mapping[str, str] = NONE) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._settings = {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **security,
        }
        self._ended = threading.Event()
        self.read: list[tuple[int, int]] = []
        self.is_uncertain = False

    def run(self) -> None:
        consumer = confluent_kafka.Consumer(self._settings)
        consumer.subscribe([self._topic])
        while not self._ended.is_set():
            found = [each for each in consumer.consume(100, 0.5) if each.error() is None]
            self.read += [(each.partition(), each.offset()) for each in found]
            while found and not self._ended.is_set():
                try:
                    consumer.commit(asynchronous=False)
                    break
                except confluent_kafka.KafkaException as failed:
                    if failed.args[0].code() in LEFT:  # it has to join again, and reads again what it could not commit
                        self.is_uncertain = True
                        break
                    self._ended.wait(0.2)
        consumer.close()

    def end(self) -> None:
        self._ended.set()
        self.join(60)


@contextmanager
def loading(
    cluster: Operated, evidence: Path, variables: Mapping[str, str] = NONE, security: Mapping[str, str] = NONE
) -> Iterator[Group]:
    """Run the probe and a group, from before to after; both have gone on at the end.

    `variables` are those of the probe beside the operator's, `security` the settings of the group's client.
    """
    ledger, group = evidence / LEDGER_FILE, Group(cluster.servers, security=security)
    words = [sys.executable, "-m", "kafkalite", "migrate", "probe", str(evidence), "--topic", TOPIC]
    words += ["--rate", "20", "--timeout", "60"]
    cluster.call("evidence", "before", str(evidence))
    probe = subprocess.Popen(words, env={**cluster.environment, **variables})
    group.start()

    def goes_on(seen: int) -> bool:
        return ledger.exists() and len(ledger.read_text().splitlines()) > seen + 20 and bool(group.read)

    try:
        wait_until(lambda: goes_on(0), "acknowledgements", 120)
        yield group
        seen = len(ledger.read_text().splitlines())
        wait_until(lambda: goes_on(seen), "more acknowledgements", 120)
        probe.send_signal(signal.SIGINT)
        assert probe.wait(300) == 0
        places = {(each.partition, each.offset) for each in read_ledger(ledger).acknowledged}
        wait_until(lambda: places <= set(group.read), "the group has read all that was acknowledged", 120)
    finally:
        probe.kill()
        probe.wait()
        group.end()


def check_evidence(cluster: Operated, evidence: Path, group: Group) -> None:
    """Compare what can be read with what could be before: nothing is missing, and the group has read nothing twice."""
    cluster.call("evidence", "after", str(evidence))
    verdict = cluster.call("verify", str(evidence))
    assert "there once, in order" in verdict and "problem" not in verdict, verdict
    assert group.is_uncertain or len(group.read) == len(set(group.read)), "nothing was read twice"
