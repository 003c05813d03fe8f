"""Bugs of what lies between sockets and requests: answers on their way out, connections before their login, requests served together."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.patching import Bug, Edit

_ORDER: Final = "kafkalite.broker.connections.request_order"
_READS: Final = "kafkalite.broker.connections.unauthenticated_reads"
_WRITER: Final = "kafkalite.broker.connections.response_writer"
_LOGIN: Final = "kafkalite.broker.connections.sasl_authenticator"
_FAST_PATH: Final = "kafkalite.broker.produce.fast_path"
_BATCHES: Final = "kafkalite.broker.produce.partition_batches"

RESPONSES: Final = (
    Bug(
        "an answer in portions overtakes what is kept for one write",
        "answers leave in another order than the requests came: the client takes one for another",
        (
            Edit(
                _WRITER,
                "        if self._corked:\n            self._flush()\n        self._portioned =",
                "        self._portioned =",
            ),
        ),
    ),
    Bug(
        "an answer in portions does not go on when its client has read",
        "the rest of the answer is never written, and the connection waits for ever",
        (
            Edit(
                _WRITER,
                "        if self._portioned is not None:\n            self._portioned.go_on()\n",
                "",
            ),
        ),
    ),
    Bug(
        "a portion is sent again with the next one",
        "bytes twice within an answer: what follows is taken for something else",
        (Edit(_WRITER, "        ready, self._ready = self._ready, []\n", "        ready = self._ready\n"),),
    ),
    Bug(
        "an answer ends with its first portion",
        "the frame is shorter than it says, and the next answer is read as the rest of it",
        (Edit(_WRITER, "                if self._position < len(part):\n                    return\n", ""),),
    ),
    Bug(
        "what was kept for one write is written again",
        "an answer that nobody asked for follows",
        (
            Edit(
                _WRITER,
                "self._corked, self._corked_bytes, [], 0\n",
                "self._corked, self._corked_bytes, self._corked[-1:], 0\n",
            ),
        ),
    ),
)

LOGINS: Final = (
    Bug(
        "an unauthenticated connection has one turn only",
        "its interest is armed once: what it sends behind its first request is never read",
        (
            Edit(
                _READS,
                "                read.transport.pause_reading()\n                self.arm(read)\n",
                "                read.transport.pause_reading()\n",
            ),
        ),
    ),
    Bug(
        "a connection is not read from any more once it is authenticated",
        "it was paused between two turns, and nobody resumes it",
        (
            Edit(
                _READS,
                "            if self.is_wanted or self.above is not None:\n",
                "            if self.above is not None:\n",
            ),
        ),
    ),
    Bug(
        "a connection that was paused in its login has no further turn",
        "a login whose requests come in one go is paused until they are served, and not armed again",
        (
            Edit(
                _READS,
                "            self.is_wanted = is_wanted\n            self._reads.arm(self)\n",
                "            self.is_wanted = is_wanted\n",
            ),
        ),
    ),
    Bug(
        "the turn of an unauthenticated connection never ends",
        "whoever came first keeps the turn, and nobody else is read from",
        (Edit(_READS, "        reading, self._reading = self._reading, []\n", "        reading = self._reading\n"),),
    ),
    Bug(
        "a connection is served before it has logged in",
        "what is asked before a login is answered to anybody",
        (
            Edit(_LOGIN, "        if api_key not in _ALLOWED:\n", "        if api_key not in APIS:\n"),
            Edit(
                _LOGIN,
                "        if api_key == ApiKey.API_VERSIONS:\n            return self._answer_versions(",
                "        if api_key != ApiKey.SASL_HANDSHAKE:\n            return self._answer_versions(",
            ),
        ),
    ),
)

TOGETHER: Final = (
    Bug(
        "what is served together is acknowledged before replication",
        "the fast path does not wait for the high watermark",
        (Edit(_FAST_PATH, "if template.acks == 1 or offset < committed:", "if template.acks == 1 or committed >= 0:"),),
    ),
    Bug(
        "what is served together is acknowledged although it was refused",
        "a leader that was deposed answers the fast path's requests as if they were committed (KAFKA-3410)",
        (
            Edit(
                _FAST_PATH,
                "            if code:\n                response = template.make_refusal(",
                "            if offset < 0:\n                response = template.make_refusal(",
            ),
        ),
    ),
    Bug(
        "a batch that was appended already is appended once more, together with others",
        "the fast path does not ask what its producer should send next (KAFKA-5494)",
        (
            Edit(
                _BATCHES,
                "                is_next = self.partition.log.producers.check(header, NO_TRANSACTION) is None\n",
                "                is_next = True\n",
            ),
            Edit(
                _BATCHES,
                "            is_next = header.producer_epoch == before.producer_epoch and header.base_sequence == follows\n",
                "            is_next = follows >= 0\n",
            ),
        ),
    ),
    Bug(
        "all that is served together has the first one's offset",
        "the offset does not move on from one request of a turn to the next",
        (
            Edit(
                _FAST_PATH,
                "                outcomes[number] = _Uncommitted(batches, offset)\n            offset += 1",
                "                outcomes[number] = _Uncommitted(batches, offset)",
            ),
        ),
    ),
    Bug(
        "a connection that waits for the pace is not read from again",
        "what was paused to be served together later is never resumed",
        (Edit(_FAST_PATH, "            sender.hold_reading(False)\n", "            pass\n"),),
    ),
    Bug(
        "answers leave as they are ready",
        "of requests that wait for replicas the one that is committed first is answered first",
        (
            Edit(
                _ORDER,
                "        for slot in slots:\n            if not slot.done:\n",
                "        slots.sort(key=lambda each: not each.done)\n        for slot in slots:\n            if not slot.done:\n",
            ),
        ),
    ),
)

CONNECTIONS: Final = (*RESPONSES, *LOGINS, *TOGETHER)
