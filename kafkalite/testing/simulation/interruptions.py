"""What interrupts a simulation from outside, such as the timeout of a test: pytest-timeout raises it from the handler of SIGALRM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Interruption(KeyboardInterrupt):
    """Carries what a signal handler raised, as its cause.

    Of all exceptions only KeyboardInterrupt and SystemExit leave a task of asyncio before somebody awaits it. Any other would be taken for
    a failure of the task that happened to run.
    """


@contextmanager
def raised_to_caller() -> Iterator[None]:
    """Raise what the handler of SIGALRM raises within the block out of the block, whatever was running there."""
    handler = signal.getsignal(signal.SIGALRM) if threading.current_thread() is threading.main_thread() else None
    if not callable(handler):
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as reason:
            raise _Interruption from reason

    signal.signal(signal.SIGALRM, interrupt)
    try:
        yield
    except _Interruption as interruption:
        raise interruption.__cause__ or interruption from None
    finally:
        signal.signal(signal.SIGALRM, handler)
