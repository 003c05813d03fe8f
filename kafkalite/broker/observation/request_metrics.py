"""Metrics of requests and connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from kafkalite.broker.observation.exposition import (
    Family,
    Sample,
    counter,
    counters,
    gauge,
    gauges,
    histogram_samples,
    label_text,
)
from kafkalite.histogram import Histogram
from kafkalite.protocol.apis import APIS, ApiKey

if TYPE_CHECKING:
    from kafkalite.broker.connections.server import Server
    from kafkalite.broker.parts import HasQuotas


class Latencies(Protocol):
    """Latencies of requests, as `Dispatcher` keeps them."""

    @property
    def latencies(self) -> Mapping[int, Histogram]: ...

    @property
    def follower_fetches(self) -> Histogram: ...


class Serving(Protocol):
    """The dispatcher and servers that these metrics read."""

    @property
    def dispatcher(self) -> Latencies: ...

    @property
    def server(self) -> Server: ...

    @property
    def parts(self) -> HasQuotas: ...


def latencies(dispatcher: Latencies) -> Iterator[tuple[str, Histogram]]:
    """Return latencies by the names of Kafka's request metrics, for APIs that were requested."""
    for key, histogram in dispatcher.latencies.items():
        name = "FetchConsumer" if key == ApiKey.FETCH else _camel_case(APIS[ApiKey(key)].name)
        if histogram.count:
            yield name, histogram
    if dispatcher.follower_fetches.count:
        yield "FetchFollower", dispatcher.follower_fetches


def families(serving: Serving) -> Iterator[Family]:
    """Return latency by API, then connections and their requests, then quotas."""
    yield from _latency_families(serving.dispatcher)
    yield from _connection_families(serving.server)
    quotas = serving.parts.quotas.by_kind
    yield counters(
        "kafkalite_throttles_total",
        "Times that a client or an address was silenced because it exceeded a quota, by kind of quota.",
        "quota",
        [(kind, quota.throttled) for kind, quota in quotas.items()],
    )
    yield counters(
        "kafkalite_throttle_seconds_total",
        "For how long these were silenced in sum.",
        "quota",
        [(kind, quota.throttled_ms / 1000) for kind, quota in quotas.items()],
    )


def _latency_families(dispatcher: Latencies) -> Iterator[Family]:
    durations: list[Sample] = []
    counts: list[Sample] = []
    for name, histogram in latencies(dispatcher):
        labels = label_text(request=name)
        durations += histogram_samples(histogram, labels)
        counts.append(Sample(labels, histogram.count))
    yield Family(
        "kafkalite_requests_total",
        "counter",
        "Requests that were answered, by API.",
        counts,
        "kafka_network_requestmetrics_requests_total",
    )
    yield Family(
        "kafkalite_request_duration_seconds",
        "histogram",
        "From the turn of a request to its answer, what it waits for included.",
        durations,
    )


def _connection_families(server: Server) -> Iterator[Family]:
    connections = Counter(dict.fromkeys(server.bound_ports, 0))
    connections.update(each.listener for each in server.connections)
    yield gauges(
        "kafkalite_connections",
        "Open connections, by listener.",
        "listener",
        connections.items(),
        "kafka_server_socket_server_metrics_connection_count",
    )
    yield counter("kafkalite_connections_accepted_total", "Connections since the start.", server.accepted)
    yield counter("kafkalite_connections_refused_total", "Connections beyond max.connections.", server.refused)
    yield gauge(
        "kafkalite_request_memory_bytes",
        "Memory of requests that arrive, wait or are in progress, but for small ones.",
        server.memory.used_bytes,
    )
    yield gauge("kafkalite_request_memory_max_bytes", "Bound on it: queued.max.request.bytes.", server.memory.max_bytes)
    yield counter(
        "kafkalite_request_memory_waits_total",
        "Times that a connection was not read, because this memory was taken.",
        server.memory.waits,
    )
    yield gauge("kafkalite_unread_response_bytes", "Responses that clients have not read.", server.unread.total_bytes)
    for name, help, label, counts in (
        (
            "bounds_exceeded",
            "Connections that were closed because their bytes would have cost too much, by the bound that these broke.",
            "bound",
            server.bounds_exceeded,
        ),
        ("authentications", "Authentications by SASL, by how they ended.", "outcome", server.authentications),
        ("tls_handshakes", "Handshakes of TLS, by how they ended.", "outcome", server.handshakes),
    ):
        yield counters(f"kafkalite_{name}_total", help, label, sorted(counts.items()))
    yield gauge(
        "kafkalite_requests_in_progress",
        "Requests that wait for their answer, delayed fetches among them.",
        sum(each.in_progress for each in server.connections),
    )


def _camel_case(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
