"""The failure of each API has the keys of its request's items and the error wherever the response has a place for it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from kafkalite.broker.handlers import SERVED
from kafkalite.broker.requests.failures import FailedItems, fail_whole_request
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.protocol import codec, messages
from kafkalite.protocol.schemas.schema import Field, Struct

_BY_NAME = {served.api.name: served for served in SERVED}
_EXPECTED = dict(line.split(" ", 1) for line in Path(__file__).with_suffix(".txt").read_text().splitlines())
"""By API the failure of the request that `make_request` makes, as the functions gave it that were once written by hand for each API."""


def make_request(name: str, items: int = 2) -> Any:
    """Return a request with a value of its own in each field."""
    namespace, numbers = getattr(messages, f"{name}_request"), itertools.count(1)

    def make_value(field: Field) -> Any:
        return [make_one(field) for _ in range(items)] if field.is_array else make_one(field)

    def make_one(field: Field) -> Any:
        if isinstance(field.type, Struct):
            return make_message(namespace.CLASSES[field.type.name])
        number = next(numbers)
        scalars = {"string": f"s{number}", "bytes": b"x", "records": b"y", "bool": True, "uuid": bytes([number]) * 16}
        return scalars.get(field.type, number)

    def make_message(kind: type[messages.Message]) -> Any:
        return kind(**{field.name: make_value(field) for field in kind.FIELDS})

    return make_message(namespace.ROOT)


@pytest.mark.parametrize("name", _BY_NAME)
def test_failure_of_each_api(name: str) -> None:
    failure = _BY_NAME[name].failure(make_request(name), ErrorCode.NOT_CONTROLLER, "why")
    assert repr(failure).replace("<ErrorCode.NOT_CONTROLLER: 41>", "41") == _EXPECTED[name]


@pytest.mark.parametrize("name", _BY_NAME)
def test_failure_can_be_written_in_each_version(name: str) -> None:
    """Old structures hold one group, one coordinator, one item."""
    served = _BY_NAME[name]
    for version in range(served.first_version, served.last_version + 1):
        failure = served.failure(make_request(name, 1), ErrorCode.NOT_CONTROLLER, None)
        assert b"".join(codec.encode_response(failure, version)) or name == "envelope"


def test_lists_that_are_null_in_the_request_are_empty_in_the_failure() -> None:
    m = messages.elect_leaders_request
    failure = FailedItems()(m.ElectLeadersRequest(topic_partitions=None), ErrorCode.NOT_CONTROLLER, None)
    assert failure.replica_election_results == []


def test_topic_that_was_not_created_has_an_empty_list_of_settings() -> None:
    failure: Any = _BY_NAME["create_topics"].failure(make_request("create_topics"), ErrorCode.NOT_CONTROLLER, None)
    assert [topic.configs for topic in failure.topics] == [[], []]
    assert failure.topics[0].configs is not failure.topics[1].configs


def test_quotas_that_were_not_described_are_null() -> None:
    name = "describe_client_quotas"
    failure: Any = _BY_NAME[name].failure(make_request(name), ErrorCode.NOT_CONTROLLER, None)
    assert failure.entries is None and _BY_NAME[name].failure is fail_whole_request


def test_produce_without_acknowledgement_fails_by_closing_the_connection() -> None:
    request = make_request("produce")
    request.acks = 0
    with pytest.raises(ProtocolViolation, match="acks=0 failed: NOT_CONTROLLER"):
        _BY_NAME["produce"].failure(request, ErrorCode.NOT_CONTROLLER, None)
