"""A subscriber that publishes in capital letters what it reads: CLIENT SERVERS SOURCE TARGET."""

import asyncio
import sys
from importlib import import_module

from faststream import FastStream

client, servers, source, target = sys.argv[1:]
broker = import_module(f"faststream.{client}").KafkaBroker(servers)


@broker.subscriber(source, group_id=f"upper-{source}", auto_offset_reset="earliest")
@broker.publisher(target)
async def upper(value: str) -> str:
    return value.upper()


asyncio.run(FastStream(broker).run())
