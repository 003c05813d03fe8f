"""Error messages of a server that cannot listen on its address."""

from __future__ import annotations

import errno
import os


def cannot_bind(what: str, host: str, port: int, problem: OSError) -> OSError:
    """Return the same error, which names the setting `what`, the address and, where one is known, the remedy."""
    return OSError(problem.errno, f"{what} cannot bind {host or '*'}:{port}: {_why(port, problem)}")


def _why(port: int, problem: OSError) -> str:
    """Return the reason without the address, which asyncio puts into the text of the system's error once more."""
    if problem.errno == errno.EADDRINUSE:
        return f"{os.strerror(problem.errno)} (see by whom: ss -ltnp 'sport = :{port}'; end that program or choose another port)"
    if problem.errno == errno.EADDRNOTAVAIL:
        return f"{os.strerror(problem.errno)} (no address of this machine; what clients call it belongs into advertised.listeners)"
    if problem.errno == errno.EACCES:
        return f"{os.strerror(problem.errno)} (ports below 1024 are root's)"
    return problem.strerror or str(problem)
