"""Requests are recognised by all that precedes their records, and by nothing less."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from kafkalite.broker.produce.request_template import RequestTemplate, RequestTemplates, SharedTemplates, TemplateBudget
from kafkalite.errors import ErrorCode
from kafkalite.net.frames import response_body_position
from kafkalite.protocol import codec
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches import plain_batch
from kafkalite.protocol.record_batches.record_walk import record_at
from kafkalite.protocol.record_batches.records import NewRecord, Record, build_batch, iter_batches, iter_records
from kafkalite.security.principal import KafkaPrincipal
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.produce.fast_path_broker import API, Broker, produce, run, template_of
from tests.unit.storage.logs import NOW_MS, all_bytes

ALICE = KafkaPrincipal("User", "alice")


def test_templates_are_found_by_all_that_precedes_the_records() -> None:
    def template(topic: str, index: int, version: int) -> tuple[bytes, RequestTemplate]:
        frame = produce(topic=topic, index=index, version=version)
        made = template_of(frame, version)
        assert made is not None
        return frame, made

    templates = RequestTemplates(TemplateBudget())
    assert templates.find(produce()) is None
    for version in (7, 9):
        known = [template(topic, index, version) for topic in ("t", "u", "long") for index in range(3)]
        for _, each in known:
            templates.add(each)
        for frame, each in known:
            found = templates.find(frame)
            assert found is not None and found[0] is each
            assert frame[found[1] :].startswith(bytes(8))  # the batch's base offset
        assert templates.find(produce(index=3, version=version)) is None
        assert templates.find(produce(client_id="other", version=version)) is None


def test_so_many_templates_are_kept_of_a_connection_and_no_more() -> None:
    shared = TemplateBudget(2)
    templates, others = RequestTemplates(shared, most=1), RequestTemplates(shared, most=0)
    for left in (True, True, True, False):
        assert templates.has_room is left
        if not left:
            assert not others.has_room
            break
        made = template_of(produce())
        assert made is not None
        templates.add(made)
    templates.close()
    assert shared.left == 2 and others.has_room, "what a connection had beyond its own goes back with it"
    assert template_of(produce(client_id="c" * 600)) is None


def test_connections_of_one_principal_and_host_share_templates() -> None:
    def made(value: bytes = b"v", **fields: Any) -> RequestTemplate:
        template = template_of(produce(value, **fields), fields.get("version", 7))
        assert template is not None
        return template

    shared = SharedTemplates()
    first = shared.share(made(), ALICE, "10.0.0.1")
    assert shared.share(made(b"another value"), ALICE, "10.0.0.1") is first
    for other in ({"index": 1}, {"topic": "u"}, {"client_id": "you"}, {"version": 8}, {"acks": -1}):
        assert shared.share(made(**other), ALICE, "10.0.0.1") is not first
    assert shared.share(made(), ALICE, "10.0.0.2") is not first
    assert shared.share(made(), KafkaPrincipal("User", "bob"), "10.0.0.1") is not first
    earlier = ref(first)
    del first
    gc.collect()
    assert earlier() is None, "a template ends with the last connection that has it"
    assert shared.share(made(), ALICE, "10.0.0.1") is not None


def test_requests_to_several_partitions_in_turn_are_all_recognised(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer(produce(), produce(index=1))
        for number in range(6):
            peer.send(produce(index=number % 2, correlation_id=number))
            await virtual_time.settle()
        assert not broker.served
        peer.send(*(produce(index=number % 2, correlation_id=number) for number in range(6)))
        await virtual_time.settle()
        assert not broker.served
        offsets = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
        assert peer.list_outcomes() == [(number % 6, 0, offset) for number, offset in enumerate(offsets)]

    run(tmp_path, act)


def test_a_part_of_a_request_is_not_taken_for_one_as_long(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        short, long = produce(b"x" * 50), produce(b"x" * 60, correlation_id=6)
        peer = await broker.peer(short, short)
        peer.send(long[: len(short)])
        await virtual_time.settle()
        assert not peer.answers()
        peer.send(long[len(short) :])
        peer.send(short)
        await virtual_time.settle()
        assert peer.list_outcomes() == [(6, 0, 2), (5, 0, 3)]

    run(tmp_path, act)


def test_records_as_long_as_the_one_before_and_otherwise_made_are_seen_through(tmp_path: Path) -> None:
    """With a layout that is known: keys and values that share their bytes otherwise, headers, null."""

    async def act(broker: Broker) -> None:
        peer = await broker.peer(*[produce(b"vv")] * 4)
        headers = build_batch([NewRecord(b"k", b"", NOW_MS, [("", b"")])])
        others = [NewRecord(b"kv", b"v", NOW_MS), NewRecord(b"", b"kvv", NOW_MS), NewRecord(None, b"kvv", NOW_MS)]
        for batch in (*(bytes(build_batch([each])) for each in others), bytes(headers)):
            peer.send(produce(batch=batch))
            await virtual_time.settle()
        assert [offset for _, _, offset in peer.list_outcomes()] == [4, 5, 6, 7]
        assert len(broker.served) == 1, "the one with a header"
        found = [(each.key, each.value, len(each.headers)) for each in records_of(broker.logs[0])]
        assert found[4:] == [(b"kv", b"v", 0), (b"", b"kvv", 0), (None, b"kvv", 0), (b"k", b"", 1)]

    run(tmp_path, act)


def test_no_record_is_walked_through_behind_two_that_are_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first of them is the one that is served as any other: a producer to a thousand partitions sends few to each of them."""
    walks = []

    def walked(data: bytes, position: int) -> object:
        walks.append(position)
        return record_at(data, position)

    async def act(broker: Broker) -> None:
        peer = await broker.peer(produce(b"v1"), produce(b"v2"))
        monkeypatch.setattr(plain_batch, "record_at", walked)
        peer.send(produce(b"v3"))
        await virtual_time.settle()
        assert peer.list_outcomes() == [(5, 0, 2)] and not broker.served and not walks
        peer.send(produce(b"another one"))
        await virtual_time.settle()
        assert peer.list_outcomes() == [(5, 0, 3)] and not broker.served and len(walks) == 1

    run(tmp_path, act)


def test_producers_with_records_of_different_lengths_do_not_disturb_each_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They share their templates."""
    walks = []

    def walked(data: bytes, position: int) -> object:
        walks.append(position)
        return record_at(data, position)

    async def act(broker: Broker) -> None:
        values = [b"x" * 10 * length for length in range(1, 5)]
        peers = [await broker.peer(*[produce(value)] * 3) for value in values]
        monkeypatch.setattr(plain_batch, "record_at", walked)
        for _ in range(3):
            for peer, value in zip(peers, values, strict=True):
                peer.send(produce(value))
            await virtual_time.settle()
        assert not broker.served and not walks
        assert broker.logs[0].log_end_offset == 4 * 6

    run(tmp_path, act)


def records_of(log: PartitionLog) -> list[Record]:
    data = all_bytes(log)
    return [record for header in iter_batches(data) for record in iter_records(data, header)]


@pytest.mark.parametrize("version", range(3, 12))
def test_a_refusal_says_what_the_version_knows(version: int) -> None:
    whole = produce(version=version, correlation_id=7)
    template = template_of(whole, version)
    assert template is not None
    answer = template.make_refusal(whole, ErrorCode.NOT_LEADER_OR_FOLLOWER, log_start_offset=3)
    body = answer[4:]
    reply = codec.decode_response(ApiKey.PRODUCE, version, body, response_body_position(API, version, body))
    partition = reply.responses[0].partition_responses[0]
    assert int.from_bytes(answer[:4], "big") == len(body) and body[:4] == bytes([0, 0, 0, 7])
    assert (partition.error_code, partition.base_offset, partition.log_append_time_ms) == (6, -1, -1)
    assert partition.log_start_offset == (3 if version >= 5 else -1)
