"""What a call to a cluster imports: a tool answers in a tenth of Java's time as long as it leaves alone what it does not need."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalite.net.frames import LENGTH, read_head, response_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, KAFKA_APIS, ApiKey

HEAVY = {
    *(
        "aiokafka",
        "click",
        "cramjam",
        "crc32c",
        "h11",
        "kazoo",
        "kio",
        "mmh3",
        "msgpack",
        "msgspec",
        "numpy",
        "pyarrow",
    ),
    *("rich", "uvloop", "pathlib", "stringprep", "uuid", "zk"),
    *("kafkalite.broker", "kafkalite.cli", "kafkalite.config", "kafkalite.controller", "kafkalite.storage"),
    *(
        "kafkalite.client.admin.admin",
        "kafkalite.client.consumer.consumer",
        "kafkalite.client.producer.producer",
        "kafkalite.client.records",
    ),
    *("kafkalite.protocol.schemas.kio_schemas", "kafkalite.protocol.record_batches.records"),
}
PARTS = {
    f"kafkalite.client.admin.{noun}"
    for noun in ("configs", "credentials", "groups", "log_dirs", "partitions", "quotas")
}
PROGRAM = """
import importlib, sys
status = importlib.import_module(sys.argv[1]).main(sys.argv[2:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(status)
"""


def _serve(listener: socket.socket) -> None:
    """One broker without topics, which has an empty answer for everything; one connection after the other until the listener closes."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as stream:
            while head := stream.read(LENGTH.size):
                frame = stream.read(LENGTH.unpack(head)[0])
                key, version, correlation_id = read_head(frame)
                body = codec.encode_response(_answer(key, listener.getsockname()[1]), version)
                connection.sendall(b"".join(response_frame(APIS[key], version, correlation_id, body)))


def _answer(key: int, port: int) -> Any:
    if key == ApiKey.API_VERSIONS:
        m = messages.api_versions_response
        ranges = [
            m.ApiVersion(api_key=a.key, min_version=a.min_version, max_version=a.max_version)
            for a in KAFKA_APIS.values()
        ]
        return m.ApiVersionsResponse(api_keys=ranges)
    if key == ApiKey.METADATA:
        n = messages.metadata_response
        return n.MetadataResponse(
            brokers=[n.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port)], controller_id=1, cluster_id="c"
        )
    return getattr(messages, f"{APIS[key].name}_response").ROOT()


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener,))
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@pytest.mark.parametrize(
    ("module", "arguments", "parts"),
    [
        ("topics.tool", "--list", ""),
        ("topics.tool", "--describe", ""),
        ("consumer_groups.tool", "--list", "groups"),
        ("consumer_groups.tool", "--describe --all-groups", "groups"),
        ("configs.tool", "--describe --entity-type topics", ""),
        ("configs.tool", "--describe --entity-type clients", "quotas"),
        ("log_dirs", "--describe", "log_dirs"),
        ("reassign_partitions.tool", "--list", "log_dirs partitions"),
    ],
)
def test_a_call_imports_only_what_it_needs(broker: str, module: str, arguments: str, parts: str) -> None:
    command = [f"kafkalite.legacy.{module}", "--bootstrap-server", broker, *arguments.split()]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True, timeout=60)
    *complaints, imported = done.stderr.splitlines()
    assert (done.returncode, complaints) == (0, [])
    found = set(imported.split())
    assert sorted(HEAVY & found) == []
    assert PARTS & found == {f"kafkalite.client.admin.{each}" for each in parts.split()}
