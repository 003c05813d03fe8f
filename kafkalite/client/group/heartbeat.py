"""When a member of a group must be heard of, as Java's `Heartbeat` keeps it (KIP-62). Pure; times in ms of one monotonic clock."""

from __future__ import annotations


class Heartbeat:
    """Three timers: the next heartbeat (heartbeat.interval.ms, retry.backoff.ms after a failure), the end of the session
    (session.timeout.ms without an answer), and the program's next poll (max.poll.interval.ms). One heartbeat is in flight at a time."""

    def __init__(
        self, interval_ms: float, session_timeout_ms: float, max_poll_interval_ms: float, retry_backoff_ms: float
    ) -> None:
        self._interval_ms = interval_ms
        self._session_timeout_ms = session_timeout_ms
        self._max_poll_interval_ms = max_poll_interval_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._in_flight = False
        self._next_ms = 0.0
        self._session_ends_ms = 0.0
        self._last_poll_ms = 0.0

    @property
    def in_flight(self) -> bool:
        """True while the response to a heartbeat is awaited."""
        return self._in_flight

    def note_poll(self, now_ms: float) -> None:
        """The program asked for records."""
        self._last_poll_ms = now_ms

    def poll_expired(self, now_ms: float) -> bool:
        """True if the program has not polled within max.poll.interval.ms."""
        return now_ms - self._last_poll_ms > self._max_poll_interval_ms

    def session_expired(self, now_ms: float) -> bool:
        """True if the coordinator said nothing for a whole session; then another one begins."""
        if now_ms < self._session_ends_ms:
            return False
        self._session_ends_ms = now_ms + self._session_timeout_ms
        return True

    def start(self, now_ms: float) -> bool:
        """True if a heartbeat is due; it is in flight from now on."""
        self._in_flight = now_ms >= self._next_ms
        return self._in_flight

    def finish(self, now_ms: float, answered: bool) -> None:
        """The heartbeat in flight was answered, or was not."""
        self._in_flight = False
        self._next_ms = now_ms + (self._interval_ms if answered else self._retry_backoff_ms)

    def retry_soon(self, now_ms: float) -> None:
        """The answer told that the coordinator cannot say anything now."""
        self._next_ms = now_ms + self._retry_backoff_ms

    def restart_session(self, now_ms: float) -> None:
        """The coordinator counts this member in: the session begins again."""
        self._next_ms = now_ms + self._interval_ms
        self._session_ends_ms = now_ms + self._session_timeout_ms

    def next_event_ms(self) -> float:
        """Return the time at which the first of the timers may run out."""
        return min(self._next_ms, self._last_poll_ms + self._max_poll_interval_ms + 1)
