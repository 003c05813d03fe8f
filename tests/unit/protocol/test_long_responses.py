"""Long responses are written in portions: the same bytes, a yield for each struct, and memory for few parts at a time."""

from __future__ import annotations

import random
from typing import Any

from kafkalite.portions import in_one_go
from kafkalite.protocol import codec, messages
from kafkalite.protocol.schemas.compiler import compile_portioned_writer, compile_writer
from tests.case import case
from tests.unit.protocol.kio_oracle import all_versions
from tests.unit.protocol.test_hostile_bytes import full_message

m = messages.metadata_response


def metadata(partitions: int) -> Any:
    told = [m.MetadataResponsePartition(partition_index=index, replica_nodes=[1, 2, 3]) for index in range(partitions)]
    return m.MetadataResponse(topics=[m.MetadataResponseTopic(name="t", partitions=told)])


def test_a_response_in_portions_has_the_same_bytes() -> None:
    for each in all_versions():
        if each.direction == "response":
            with case(each):
                schema, message = (
                    messages.schema(each.api, "response", each.version),
                    full_message(each, random.Random(1)),
                )
                at_once = compile_writer(schema, each.classes)(message)
                assert b"".join(in_one_go(compile_portioned_writer(schema)(message))) == b"".join(at_once)


def test_a_long_response_yields_for_each_struct() -> None:
    for version in (1, 12):
        reply = metadata(5000)
        assert sum(1 for _ in codec.encode_long_response(reply, version)) == 5000 + 2
        buffers = in_one_go(codec.encode_long_response(reply, version))
        assert b"".join(buffers) == b"".join(codec.encode_response(reply, version))
        assert len(buffers) < 20


def test_a_response_is_adapted_before_it_is_written_in_portions() -> None:
    f = messages.offset_fetch_response
    topics = [f.OffsetFetchResponseTopics(name="t", partitions=[f.OffsetFetchResponsePartitions(committed_offset=7)])]
    reply = f.OffsetFetchResponse(groups=[f.OffsetFetchResponseGroup(group_id="g", topics=topics)])
    assert b"".join(in_one_go(codec.encode_long_response(reply, 5))) == b"".join(codec.encode_response(reply, 5))


def test_items_are_counted_until_there_are_too_many() -> None:
    assert messages.has_more_items(metadata(1000), 4000)
    assert not messages.has_more_items(metadata(1000), 4001), "a topic, its partitions, three replicas of each"
    assert not messages.has_more_items(m.MetadataResponse(topics=None), 0)
    assert messages.has_more_items(messages.describe_groups_request.DescribeGroupsRequest(groups=["g", "h"]), 1)
