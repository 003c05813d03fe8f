"""Kafka Streams, by a test of its own."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program
from tests.ecosystem.own_tests import passed
from tests.peers.apache_kafka import VERSION

PROGRAM = Program(
    title="Kafka Streams",
    version=VERSION,
    tried="counts with a changelog, exactly once, though an instance is killed (`tests/peers/test_streams.py`)",
    setup=environments.none,
    show=lambda scene: passed(scene, "tests/peers/test_streams.py"),
    only_ours=True,
)
