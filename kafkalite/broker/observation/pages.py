"""The pages by path.

/             a page that shows the cluster live; its parts are the files in `page/`
/metrics      for Prometheus
/health       200 as long as the event loop turns: the broker is alive; the body also names logs that cannot be
              compacted, and those that are not served because they have another topic id than ZooKeeper
/ready        200 when the broker serves clients, else 503; the body says which condition does not hold
/status.json  see `status`
/history.json see `history`
/events       see `live`
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from kafkalite.broker.observation import exposition
from kafkalite.broker.observation.broker_metrics import all_families
from kafkalite.broker.observation.groups import ClusterGroups
from kafkalite.broker.observation.history import History
from kafkalite.broker.observation.http import Answer, EventStream, HttpServer, Page, Response
from kafkalite.broker.observation.live import LiveStatus, TooManyStreams
from kafkalite.broker.observation.loop_lag import LoopLag
from kafkalite.broker.observation.peers import TIMEOUT_S, Peers
from kafkalite.broker.observation.readiness import conditions
from kafkalite.broker.observation.session_counts import SessionCounts
from kafkalite.broker.observation.zookeeper_groups import ZooKeeperGroups
from kafkalite.config.listeners import split_host_port
from kafkalite.net.login import read_login
from kafkalite.types import BrokerId
from kafkalite.web import CSS, JAVASCRIPT, SHARED, PageFile

if TYPE_CHECKING:
    from kafkalite.broker.observation.observed import Observed
    from kafkalite.net.connection import Connection

JSON: Final = "application/json"
_PLACE: Final = "kafkalite.broker.observation"
FILES: Final = {
    "/": PageFile(_PLACE, "page", "page.html", "text/html; charset=utf-8"),
    "/page.css": PageFile(_PLACE, "page", "page.css", CSS),
    "/icon.svg": PageFile(_PLACE, "page", "icon.svg", "image/svg+xml"),
    **{f"/{name}": PageFile(_PLACE, "page", name, JAVASCRIPT) for name in ("page.js", "changes.js", "plots.js")},
    **SHARED,
}
"""Files of pages by path."""


class Observation:
    """The HTTP listener of one broker, from `start` to `close`."""

    def __init__(self, broker: Observed) -> None:
        self._broker = broker
        self._loop_lag = LoopLag()
        self._sessions = SessionCounts(broker.store)
        self._history = History(broker)
        self._groups: ClusterGroups | None = None
        self._zookeeper_groups: ZooKeeperGroups | None = None
        self._live = LiveStatus(broker, self._cluster_groups)
        pages: dict[str, Page] = {path: partial(_file, file) for path, file in FILES.items()}
        pages |= {
            "/metrics": self._metrics,
            "/health": self._health,
            "/ready": self._ready,
            "/status.json": self._status,
            "/history.json": self._last_hour,
            "/events": self._events,
        }
        config, login = broker.config, None
        if config.kafkalite_http_users_file is not None:
            login = read_login(
                config.kafkalite_http_users_file,
                "kafkalite.http.users.file",
                may_be_exposed=config.kafkalite_allow_world_readable_secrets,
            )
        self.server = HttpServer(pages, config.kafkalite_http_max_connections, login, ("/health", "/ready"))

    async def start(self, listener: str) -> None:
        """Serve at `listener`, host:port. OSError names the address; ConfigError: there is no certificate, or nobody may look."""
        self._loop_lag.start()
        self._history.start()
        encrypted = None
        if self._broker.config.kafkalite_http_ssl_enable:
            encrypted = await self._broker.security.of_http()
        await self.server.start(*split_host_port(listener), encrypted)

    async def close(self) -> None:
        self._loop_lag.stop()
        self._history.stop()
        await self.server.close()
        if self._groups is not None:
            self._groups.disconnect()

    def _cluster_groups(self) -> ClusterGroups | None:
        """Return the groups, None until the broker serves."""
        serving = self._broker.serving
        if self._groups is None and serving is not None:
            self._groups = ClusterGroups(serving.parts, Peers(self._connect))
            self._zookeeper_groups = ZooKeeperGroups(serving.parts, self._groups.end_of)
        return self._groups

    async def _metrics(self) -> Answer:
        groups = self._cluster_groups()
        if groups is not None:
            await groups.refresh(everywhere=False)
        if self._zookeeper_groups is not None:
            self._zookeeper_groups.refresh()
        families = all_families(self._broker, self._loop_lag, self._sessions, groups, self._zookeeper_groups)
        return Response(await exposition.page(families), exposition.CONTENT_TYPE)

    async def _health(self) -> Answer:
        broker, serving = self._broker, self._broker.serving
        found = {
            "uncleanable_partitions": {str(each): why for each, why in sorted(broker.cleaner.uncleanable.items())},
            "topic_id_conflicts": {} if serving is None else serving.parts.replicas.topic_id_conflicts.reasons(),
        }
        return _json({"alive": True, "state": broker.state.name.lower(), **found})

    async def _ready(self) -> Answer:
        found = conditions(self._broker)
        status = HTTPStatus.OK if all(found.values()) else HTTPStatus.SERVICE_UNAVAILABLE
        return _json({"ready": status == HTTPStatus.OK, **found}, status)

    async def _status(self) -> Answer:
        return _json(await self._live.full_status(settled=True))

    async def _last_hour(self) -> Answer:
        return _json(self._history.to_dict())

    async def _events(self) -> Answer:
        try:
            return EventStream(self._live.subscribe())
        except TooManyStreams:
            text = "Enough clients look already: kafkalite.http.max.event.streams.\n"
            return Response(text.encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)

    async def _connect(self, broker_id: BrokerId) -> Connection:
        listener = self._broker.config.inter_broker_listener_name
        endpoint = self._broker.metadata.endpoint(broker_id, listener)
        if endpoint is None:
            raise ConnectionError(f"broker {broker_id} has no listener {listener} as far as metadata knows")
        return await self._broker.security.open(endpoint, f"broker-{self._broker.broker_id}-observation", TIMEOUT_S)


async def _file(file: PageFile) -> Answer:
    content = await asyncio.get_running_loop().run_in_executor(None, file.read)
    return Response(content, file.content_type)


def _json(data: dict[str, Any], status: int = HTTPStatus.OK) -> Response:
    return Response(json.dumps(data, separators=(",", ":")).encode() + b"\n", JSON, status)
