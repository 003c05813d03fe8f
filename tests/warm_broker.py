"""All brokers of the tests come from a process that has imported them (`kafkalite.local.warm_brokers`), lone ones too.

What a broker imports when it starts alone is seen where the command or the image is tested (tests/deploy, tests/containers and
tests/unit/cli).
"""

from __future__ import annotations

from kafkalite.local import broker_process
from kafkalite.local.warm_brokers import start_warm


def use_warm_brokers() -> None:
    """The process that imports starts with the first broker, and ends with this process."""
    broker_process.start_process = start_warm
