"""kafka-utils, as the museum shows it."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program
from tests.ecosystem.own_tests import exhibited

VERSION = "4.1.0"

PROGRAM = Program(
    title="kafka-utils",
    version=VERSION,
    tried="topics, lag, committed offsets, and setting them (`tests/museum/clients/kafka-utils.toml`)",
    setup=environments.none,
    show=lambda scene: exhibited(scene, f"kafka-utils-{VERSION}"),
)
