"""kafkajs, as the museum shows it."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program
from tests.ecosystem.own_tests import exhibited

VERSION = "2.2.4"

PROGRAM = Program(
    title="kafkajs",
    version=VERSION,
    tried="all that the museum knows of it, transactions among it (`tests/museum/clients/kafkajs.toml`)",
    setup=environments.none,
    show=lambda scene: exhibited(scene, f"kafkajs-{VERSION}"),
)
