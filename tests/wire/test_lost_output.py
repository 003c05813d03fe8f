"""Members of a group whose output is on a full disk: what could not be written is read again by the next member."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from kafkalite.client import SyncProducer
from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire

CONSOLE_CONSUMER = "from kafkalite.legacy.console.consumer import main; raise SystemExit(main())"


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "kafkalite", "consume", "TOPIC", "-b", "SERVERS", "-g", "TOPIC", "--idle-timeout", "3"],
        [
            "-c",
            CONSOLE_CONSUMER,
            "--bootstrap-server",
            "SERVERS",
            "--topic",
            "TOPIC",
            "--group",
            "TOPIC",
            "--from-beginning",
            "--timeout-ms",
            "6000",
        ],
    ],
    ids=["consume", "kafka-console-consumer"],
)
def test_records_that_could_not_be_written_are_not_committed(
    command: Sequence[str], servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic(1)
    with SyncProducer(bootstrap_servers=servers) as producer:
        for number in range(5):
            producer.send(topic, b"v%d" % number)
        producer.flush()
    words = [sys.executable, *({"TOPIC": topic, "SERVERS": servers}.get(word, word) for word in command)]
    with open("/dev/full", "w") as full:
        lost = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=90)
    assert lost.returncode == 1
    assert "Error: cannot write to standard output: No space left on device" in lost.stderr
    read = subprocess.run(words, capture_output=True, text=True, timeout=90)
    assert read.stdout.split() == [f"v{number}" for number in range(5)], read.stderr
