"""A server that cannot listen says what is in the way, and what helps."""

from __future__ import annotations

import errno
import os

import pytest

from kafkalite.net.binding import cannot_bind


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EADDRINUSE, r"Address already in use \(see by whom: ss -ltnp 'sport = :9092'; end that program"),
        (
            errno.EADDRNOTAVAIL,
            r"Cannot assign requested address \(no address of this machine; .* advertised\.listeners\)",
        ),
        (errno.EACCES, r"Permission denied \(ports below 1024 are root's\)"),
        (errno.EMFILE, r"Too many open files$"),
    ],
)
def test_a_port_that_cannot_be_had(number: int, said: str) -> None:
    problem = cannot_bind("listener A", "", 9092, OSError(number, os.strerror(number)))
    assert problem.errno == number
    with pytest.raises(OSError, match=rf"listener A cannot bind \*:9092: {said}"):
        raise problem
