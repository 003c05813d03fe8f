"""What a broker does when its settings change, beside reading the new ones at their next use (KIP-226)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from kafkalite.broker.connections.server import Server
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.lifecycle import Jobs
from kafkalite.storage.directories.cleaner import LogCleaner


def act_on_changes(
    config: LiveConfig,
    jobs: Jobs,
    server: Server,
    cleaner: LogCleaner,
    announce: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """From now on: listeners are bound and told to the cluster (`announce`), names looked up, log cleaners started."""

    async def take_listeners() -> None:
        await server.rebind()
        await announce()

    def changed(before: BrokerConfig, after: BrokerConfig) -> None:
        if (before.listeners, before.advertised_listeners) != (after.listeners, after.advertised_listeners):
            jobs.retry(take_listeners, "listeners")
        if before.originals != after.originals and any(
            each.security_protocol != "PLAINTEXT" for each in after.listeners
        ):
            jobs.retry(server.renew_security, "security of listeners")
        if before.max_connections_per_ip_overrides != after.max_connections_per_ip_overrides:
            jobs.retry(server.resolve_names, "names of max.connections.per.ip.overrides")
        if after.log_cleaner_enable:
            cleaner.start_workers(jobs.retry)

    config.subscribe(changed)
