"""Options of clients: what a wrong keyword argument or value is told, and that no two lists of names differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest

from kafkalite.client import (
    Acks,
    Admin,
    AdminOptions,
    AssignorName,
    CompressionType,
    ConfigChange,
    Consumer,
    ConsumerOptions,
    FormatName,
    IsolationLevel,
    OffsetReset,
    PartitionerName,
    Producer,
    ProducerOptions,
    SaslMechanism,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    UnknownOptionError,
)
from kafkalite.client.group.assignors import ASSIGNORS
from kafkalite.client.serializers import FORMATS
from kafkalite.protocol.record_batches.compression import CODEC_OF_NAME
from kafkalite.security.sasl_client import MECHANISMS


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: SyncProducer(bootstrap_server="b:1"),  # type: ignore[call-arg]
            "Producer has no option bootstrap_server; did you mean bootstrap_servers?",
        ),
        (
            lambda: Producer(**{"linger.ms": 5}),  # type: ignore[arg-type]
            "Producer has no option linger.ms; did you mean linger_ms?",
        ),
        (lambda: SyncProducer(colour="red"), "Producer has no option colour"),  # type: ignore[call-arg]
        (
            lambda: SyncConsumer(group="readers"),  # type: ignore[call-overload]
            "Consumer has no option group; did you mean group_id?",
        ),
        (
            lambda: Consumer(topics=["flights"]),  # type: ignore[call-overload]
            "Consumer has no option topics; topics come first, without a keyword",
        ),
        (lambda: Admin(acks="all"), "Admin has no option acks"),  # type: ignore[call-arg]
        (
            lambda: SyncAdmin.from_config({}, request_timeout=5),  # type: ignore[call-arg]
            "Admin has no option request_timeout; did you mean request_timeout_ms?",
        ),
        (
            lambda: SyncConsumer.from_config({"group.ids": "a"}),
            "Consumer has no option group.ids; did you mean group.id?",
        ),
        (
            lambda: SyncProducer("b:1"),  # type: ignore[misc]
            "Producer takes options by name alone, as in bootstrap_servers='localhost:9092'; 'b:1' has none",
        ),
        (
            lambda: SyncAdmin.from_config({}, {"client.id": "a"}),  # type: ignore[misc]
            "Admin takes options by name alone, as in bootstrap_servers='localhost:9092'; {'client.id': 'a'} has none",
        ),
        (
            lambda: SyncConsumer(["flights"], group_id="a"),  # type: ignore[call-overload]
            "Consumer takes topics by name, as in Consumer('flights', 'delays'); ['flights'] is none",
        ),
    ],
)
def test_an_argument_that_is_no_option_is_told_with_the_nearest_one(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UnknownOptionError) as raised:
        make()
    assert str(raised.value) == message


def test_an_unknown_option_is_an_error_of_a_value_and_of_a_call() -> None:
    """Programs catch it as what `from_config` has always raised, or as what Python raises for any function."""
    for kind in (ValueError, TypeError):
        with pytest.raises(kind):
            SyncAdmin(acks="all")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        (ProducerOptions, {"linger_ms": "5"}, "linger_ms is '5', not a number"),
        (ProducerOptions, {"batch_size": None}, "batch_size is None, not a number"),
        (ProducerOptions, {"retries": True}, "retries is True, not a number"),
        (ConsumerOptions, {"enable_auto_commit": "false"}, "enable_auto_commit is 'false', neither True nor False"),
        (
            AdminOptions,
            {"bootstrap_servers": 9092},
            "bootstrap_servers is 9092; it may be 'host:port,host:port' or a list",
        ),
        (AdminOptions, {"bootstrap_servers": [("b", 1)]}, "bootstrap_servers is [('b', 1)]; it may be"),
        (AdminOptions, {"bootstrap_servers": b"b:1"}, "bootstrap_servers is b'b:1'; it may be"),
        (ProducerOptions, {"value_serializer": 5}, "5 is no format, neither by name (bytes, str"),
        (ConsumerOptions, {"key_deserializer": {"flights": 5}}, "5 is no format, neither by name (bytes, str"),
        (ProducerOptions, {"partitioner": 5}, "no partitioner 5; there are murmur2"),
        (ProducerOptions, {"acks": "every"}, "acks is 'every'; it may be 0, 1 or 'all'"),
        (ProducerOptions, {"compression_type": "zst"}, "compression_type is 'zst'; it may be none, gzip"),
        (
            ConsumerOptions,
            {"group_id": "a", "partition_assignment_strategy": 5},
            "5 is no assignor, neither by name (range, roundrobin",
        ),
        (
            ConsumerOptions,
            {"auto_offset_reset": "smallest"},
            "auto_offset_reset is 'smallest'; it may be earliest, latest",
        ),
        (ConsumerOptions, {"isolation_level": ["a"]}, "isolation_level is ['a']; it may be read_uncommitted"),
        (AdminOptions, {"security_protocol": "TLS"}, "security_protocol is TLS; it must be one of PLAINTEXT, SSL"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_with_its_option(
    options: Callable[..., Any], given: dict[str, Any], message: str
) -> None:
    """Never later, by a TypeError from somewhere within the client."""
    with pytest.raises(ValueError) as raised:
        options(**given)
    assert str(raised.value).startswith(message)


def test_an_operation_that_there_is_not_is_told() -> None:
    with pytest.raises(ValueError, match="no operation 'add'; there are set, delete, append, subtract"):
        ConfigChange("cleanup.policy", "add", "compact")  # type: ignore[arg-type]


def test_numbers_of_any_type_are_numbers() -> None:
    assert ProducerOptions(linger_ms=0.5, retries=3).linger_ms == 0.5
    assert AdminOptions(bootstrap_servers=("b:1", "c:2")).bootstrap_servers == ("b:1", "c:2")


@pytest.mark.parametrize(
    ("literal", "known"),
    [
        (FormatName, set(FORMATS)),
        (AssignorName, set(ASSIGNORS)),
        (CompressionType, set(CODEC_OF_NAME) - {"uncompressed"}),  # none by the name of topics' settings
        (SaslMechanism, {"", *MECHANISMS}),
    ],
)
def test_type_checkers_know_all_names(literal: Any, known: set[str]) -> None:
    assert set(get_args(literal)) == known


@pytest.mark.parametrize(
    ("options", "option", "literal"),
    [
        (ConsumerOptions, "auto_offset_reset", OffsetReset),
        (ConsumerOptions, "isolation_level", IsolationLevel),
        (ProducerOptions, "acks", Acks),
        (ProducerOptions, "partitioner", PartitionerName),
    ],
)
def test_each_name_that_type_checkers_know_is_taken(options: Callable[..., Any], option: str, literal: Any) -> None:
    for name in get_args(literal):
        assert getattr(options(**{option: name}), option) == name
