"""The health check of the container image, which asks the servers of this container.

It runs every few seconds in each container, and ten times a second while one starts, so it is a file that Python runs by itself, without
site-packages and with next to no imports (`python3 -I -S image_health.py FILE`, 0.02 s of processor time instead of 0.2). `FILE` is made by
`cli.image configure`: a line for each server, `zookeeper HOST PORT` or `broker HOST PORT PROTOCOL`.
"""

from __future__ import annotations

import socket
import sys

TIMEOUT_S = 3.0
_CLIENT_ID = b"kafkalite-health"
_HEADER = b"\0\x12\0\0\0\0\0\x01" + len(_CLIENT_ID).to_bytes(2, "big")
_API_VERSIONS = (len(_HEADER) + len(_CLIENT_ID)).to_bytes(4, "big") + _HEADER + _CLIENT_ID
"""The request ApiVersions 0, framed; its response starts with the correlation id and an error code."""
_NO_ERROR = b"\0\0\0\x01\0\0"


def check(lines: list[str]) -> None:
    """Ask each server. OSError, with the reason, for the first that does not serve."""
    if not lines:
        raise OSError("nothing is configured in this container yet")
    for line in lines:
        kind, host, port, *protocol = line.split()
        if kind == "zookeeper":
            check_zookeeper(host, int(port))
        else:
            check_broker(host, int(port), protocol[0])


def check_broker(host: str, port: int, protocol: str) -> None:
    """Check that a broker answers ApiVersions, on a listener with this security protocol. Raises OSError."""
    with socket.create_connection((host, port), TIMEOUT_S) as plain:
        answer = _ask_by_tls(plain, host) if protocol.endswith("SSL") else _ask_versions(plain)
    if answer[4:] != _NO_ERROR:
        raise OSError(f"{host}:{port} answers no ApiVersions request")


def _ask_versions(connection: socket.socket) -> bytes:
    connection.sendall(_API_VERSIONS)
    answer = b""
    while len(answer) < 4 + len(_NO_ERROR):
        part = connection.recv(4 + len(_NO_ERROR) - len(answer))
        if not part:
            break
        answer += part
    return answer


def _ask_by_tls(plain: socket.socket, host: str) -> bytes:
    import ssl  # takes longer than all else

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # it asks itself
    try:
        with tls.wrap_socket(plain, server_hostname=host) as connection:
            return _ask_versions(connection)
    except ssl.SSLError as problem:
        # Who demands a certificate (ssl.client.auth=required) serves.
        if problem.reason in ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"):
            return bytes(4) + _NO_ERROR
        raise


def check_zookeeper(host: str, port: int) -> None:
    """Check that a server serves, alone or as a member of a quorum. Raises OSError."""
    with socket.create_connection((host, port), TIMEOUT_S) as stream:
        stream.sendall(b"srvr")
        answer = b""
        while part := stream.recv(4096):
            answer += part
    if b"Mode:" not in answer:
        raise OSError(f"the ZooKeeper server at {host}:{port} does not serve yet")


def main(path: str) -> int:
    """Run the check and return the exit code: 0, or 1 with a line on stderr."""
    try:
        try:
            with open(path) as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            lines = []
        check(lines)
    except OSError as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
