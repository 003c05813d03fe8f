"""`kafkalite broker --guard`: a small parent process that outlives its broker, and has its ZooKeeper session ended when it was killed.

The guard forks once it knows the settings, and before anything of the broker is imported: the start takes no second interpreter, and the
guard stays small. It passes signals on, reaps what its process inherits as PID 1 of a container, and exits with the broker's status, 128
plus the number of a signal as shells say. When the guard itself is killed the broker is killed with it (on Linux): a broker that went on
alone would have the log directories locked against the next one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

_OF_BROKERS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGUSR1})
"""Signals that a broker handles also where its caller ignores them, as shells do with SIGINT for what runs in the background."""
_OTHERS: Final = frozenset({signal.SIGHUP, signal.SIGQUIT})
_PR_SET_PDEATHSIG: Final = 1


def fork_guarded(after_death: Callable[[], None]) -> None:
    """Return in a child process, which is to become the broker; the calling process guards it and never returns.

    `after_death` is called in the guard when the child has ended with another status than 0.
    """
    others = {each for each in _OTHERS if signal.getsignal(each) is not signal.SIG_IGN}
    signals = {*_OF_BROKERS, *others, signal.SIGCHLD}
    former_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    former_handler = signal.signal(signal.SIGCHLD, lambda *_: None)  # some systems drop what would be ignored
    sys.stdout.flush()
    sys.stderr.flush()
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        _end_with(guard)
        signal.signal(signal.SIGCHLD, former_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, former_mask)
        return
    status = _wait_for(child, signals)
    if status != 0:
        try:
            after_death()
        except Exception as problem:
            print(f"kafkalite broker --guard: {problem!r}", file=sys.stderr)
    sys.stderr.flush()
    os._exit(status)


def _end_with(guard: int) -> None:
    """Let the kernel kill this process when the guard, its parent, ends; on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)


def _wait_for(child: int, signals: set[signal.Signals]) -> int:
    """Pass signals on until the child has ended, and return its status."""
    while (status := _reap(child)) is None:  # first what ended before its signal was blocked, and so left none
        number = signal.sigwait(signals)
        if number != signal.SIGCHLD:
            os.kill(child, number)
    return status


def _reap(child: int) -> int | None:
    """Reap every process that has ended, and return the status of the child if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code
