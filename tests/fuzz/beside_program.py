"""The program of `beside`: asks a broker again and again, and prints a line for each answer. Imports nothing of ours: it starts at once.

    python beside_program.py HOST PORT PID REQUEST

It sends REQUEST (a frame, in hexadecimal digits) each 10 ms until its input ends. A line has three numbers: seconds until the answer, the
seconds that the processor worked for the process PID meanwhile, and the time of the answer (perf_counter, which all processes share).
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Final

ASK_EACH_S: Final = 0.01
ANSWER_S: Final = 120.0
_CPUCLOCK_SCHED: Final = 2


def await_answer(connection: socket.socket) -> bool:
    """Wait for an answer or the end of the connection; was it an answer?"""
    try:
        length = connection.recv(4, socket.MSG_WAITALL)
        left = struct.unpack(">i", length)[0] if len(length) == 4 else 0
        answered = left > 0
        while left > 0 and (data := connection.recv(min(left, 1 << 20))):
            left -= len(data)
    except ConnectionError:
        return False
    return answered and not left


def worked_seconds(pid: int) -> float:
    """Processor time of all threads of a process, to the nanosecond: by its clock, which Linux makes of its number."""
    return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)


def timed_answer(connection: socket.socket, request: bytes, pid: int) -> tuple[float, float, float]:
    """Seconds until the answer, those that the process worked meanwhile, and when the answer came. ConnectionError without one."""
    worked_s, began_s = worked_seconds(pid), time.perf_counter()
    connection.sendall(request)
    if not await_answer(connection):
        raise ConnectionError("closed")
    now_s = time.perf_counter()
    return now_s - began_s, worked_seconds(pid) - worked_s, now_s


def main(host: str, port: str, pid: str, request: str) -> None:
    frame = bytes.fromhex(request)
    with suppress(
        OSError
    ):  # else it is told of its answer late on a busy machine, and takes that for the broker's work
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    with socket.create_connection((host, int(port)), timeout=ANSWER_S) as connection:
        while not select.select([sys.stdin], [], [], ASK_EACH_S)[0]:
            print(*timed_answer(connection, frame, int(pid)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
