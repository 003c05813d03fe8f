"""Answers with records that lie in files: a portion in each turn, as long as the socket takes them, and nothing in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kafkalite.storage.log.file_records import PORTION_BYTES, FileRecords
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.connections.test_connection import OTHER, Peer, frame, scenario
from tests.unit.storage.logs import directory_at

CONTENT = bytes(range(256)) * (14 * 1024)
"""3.5 MiB: with a head of 1,000 bytes four portions."""


def portioned(path: Path) -> list[Any]:
    (path / "records").write_bytes(CONTENT)
    directory = directory_at(path)
    name = str(path / "records")
    return [b"<", FileRecords(directory, name, 0, CONTENT[:1000], len(CONTENT)), b">"]


def test_an_answer_in_portions_is_whole_and_what_is_behind_it_waits(tmp_path: Path) -> None:
    async def act(peer: Peer) -> None:
        peer.dispatcher.at_once = {b"first", b"last"}
        peer.dispatcher.large = portioned(tmp_path)
        peer.send(frame(OTHER, b"first"), frame(OTHER, b"large"), frame(OTHER, b"last"))
        assert peer.dispatcher.started == [b"first", b"large"], "it is not answered before it is sent"
        assert len(peer.transport.written) < 2 * PORTION_BYTES
        await virtual_time.settle()
        assert peer.transport.written == b"[first]<" + CONTENT + b">[last]"
        assert peer.connection.is_idle and peer.connection.in_progress == 0

    scenario(act)


def test_nothing_more_is_read_from_files_than_the_socket_takes(tmp_path: Path) -> None:
    async def act(peer: Peer) -> None:
        peer.dispatcher.large = portioned(tmp_path)
        peer.send(frame(OTHER, b"large"))
        peer.connection.pause_writing()
        written = len(peer.transport.written)
        await virtual_time.settle()
        assert len(peer.transport.written) == written <= PORTION_BYTES + 1001
        assert peer.connection.is_idle, "a client that does not read is as idle as one that does not ask"
        peer.connection.resume_writing()
        await virtual_time.settle()
        assert peer.transport.written == b"<" + CONTENT + b">"

    scenario(act)


def test_what_is_not_in_memory_is_loaded_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = 2

    def read_in_memory(self: Any, position: int, size: int) -> bytes | None:
        nonlocal cold
        cold -= 1
        return None if cold >= 0 else CONTENT[position : position + size]

    monkeypatch.setattr("kafkalite.storage.disk._OsFile.read_in_memory", read_in_memory)

    async def act(peer: Peer) -> None:
        peer.dispatcher.large = portioned(tmp_path)
        peer.send(frame(OTHER, b"large"))
        while not peer.connection.is_idle or peer.connection.in_progress:
            await asyncio.sleep(0)
        assert peer.transport.written == b"<" + CONTENT + b">"

    scenario(act)
    assert cold < 0


def test_an_answer_that_cannot_be_finished_closes_the_connection(tmp_path: Path, caplog: Any) -> None:
    async def act(peer: Peer) -> None:
        peer.dispatcher.large = portioned(tmp_path)
        peer.send(frame(OTHER, b"large"))
        (tmp_path / "records").write_bytes(CONTENT[: 2 * PORTION_BYTES])
        await virtual_time.settle()
        assert peer.transport.aborted
        peer.connection.connection_lost(None)

    scenario(act)
    assert "closing the connection from 10.0.0.7 on PLAINTEXT" in caplog.text and "was cut" in caplog.text


def test_a_client_that_leaves_is_sent_nothing_more(tmp_path: Path) -> None:
    async def act(peer: Peer) -> None:
        peer.dispatcher.large = portioned(tmp_path)
        peer.send(frame(OTHER, b"large"))
        written = len(peer.transport.written)
        peer.connection.connection_lost(None)
        await virtual_time.settle()
        assert len(peer.transport.written) == written

    scenario(act)
