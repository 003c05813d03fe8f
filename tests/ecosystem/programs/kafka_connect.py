"""Kafka Connect, by a test of its own."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program
from tests.ecosystem.own_tests import passed
from tests.peers.apache_kafka import VERSION

PROGRAM = Program(
    title="Kafka Connect",
    version=VERSION,
    tried="an exactly-once source, though its worker is killed (`tests/peers/test_connect.py`)",
    setup=environments.none,
    show=lambda scene: passed(scene, "tests/peers/test_connect.py"),
    only_ours=True,
)
