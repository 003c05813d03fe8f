"""`python -m tests.system.console_of_many_topics`: the console of a cluster in memory with ten thousand topics; prints its address.

Brokers would take minutes to make so many topics for a test. What a person waits for is the console's: its looks at all topics, its answers
and its page.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kafkalite.clock import SystemClock
from kafkalite.console.access import Access
from kafkalite.console.app import Console, Ports
from kafkalite.console.serving import bound_socket, serve
from kafkalite.types import TopicPartition
from tests.unit.console.fake_admin import FakeAdmin
from tests.unit.console.fake_brokers import FakeBrokers

TOPICS: Final = 10_000
PARTITIONS: Final = 2
GROUP: Final = "readers"


def main() -> None:
    admin = FakeAdmin({f"topic-{number:05}": PARTITIONS for number in range(TOPICS)})
    admin.committed[GROUP] = {TopicPartition("topic-00001", 0): 50}
    ports = Ports(admin, admin, FakeBrokers(admin), None, admin.open_producer, None, SystemClock())  # type: ignore[arg-type]
    with bound_socket("127.0.0.1", 0) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        asyncio.run(serve(Console(ports, Access(), "memory").app, listening, lambda: print(address, flush=True)))


if __name__ == "__main__":
    main()
