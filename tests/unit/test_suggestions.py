"""Who mistypes a name hears of the one that was meant: a setting, a command, an option, a topic."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, NamedTuple

import pytest
from click.testing import CliRunner

import kafkalite.client
from kafkalite.cli import topic_suggestions
from kafkalite.cli.calls import refuse
from kafkalite.cli.main import main
from kafkalite.client import AdminError, ClientError, ProducerOptions
from kafkalite.client.options import options_from_config
from kafkalite.config.broker import BrokerConfig
from kafkalite.errors import ErrorCode
from kafkalite.suggestions import did_you_mean, nearest


def test_the_nearest_names_come_first_whatever_their_case() -> None:
    assert nearest("Retention.MS", ["retention.bytes", "retention.ms"]) == "retention.ms"
    assert did_you_mean("compresion.type", ["compression.type", "linger.ms"]) == "; did you mean compression.type?"
    assert did_you_mean("wholly.different", ["compression.type"]) == did_you_mean("x", []) == ""


def test_a_broker_names_the_setting_that_was_meant() -> None:
    config = BrokerConfig.from_properties(
        {"broker.id": "1", "zookeeper.connect": "z:1", "log.dirs": "/d", "log.retension.ms": "1"}
    )
    assert list(config.warnings()) == [
        "log.retension.ms is not known to a broker and has no effect; did you mean log.retention.ms?"
    ]


def test_a_client_names_the_option_that_was_meant() -> None:
    with pytest.raises(ValueError, match=r"has no option linger\.m; did you mean linger\.ms\?"):
        options_from_config(ProducerOptions, {"linger.m": "5"})
    with pytest.raises(ValueError, match=r"has no option batchsize; did you mean batch_size\?"):
        options_from_config(ProducerOptions, {"batchsize": 5})


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["topics"], "topic"),
        (["topic", "crate"], "create"),
        (["topic", "list", "--internl"], "--internal"),
        (["topic", "list", "-X", "client.idd=x"], "client.id"),
    ],
)
def test_a_command_line_is_refused_with_what_was_meant(words: list[str], meant: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "ean" in result.stderr and meant in result.stderr.rpartition("ean")[2]


def test_a_setting_of_a_topic_is_refused_with_what_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ClientError(ErrorCode.INVALID_CONFIG, "orders: Unknown topic config name: retention.m")
    with pytest.raises(SystemExit):
        refuse({"orders": problem})
    assert (
        "Unknown topic config name: retention.m [INVALID_CONFIG]; did you mean retention.ms?" in capsys.readouterr().err
    )


class NamedTopic(NamedTuple):
    """What suggestions read of a topic's description."""

    name: str


class FakeAdmin:
    """Knows two topics."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, **options: Any) -> None:
        self.asked.append(options)

    async def __aenter__(self) -> FakeAdmin:
        return self

    async def __aexit__(self, *problem: object) -> None:
        pass

    async def describe_topics(self) -> list[NamedTopic]:
        return [NamedTopic("temperatures"), NamedTopic("orders")]


def unknown_topic(name: str) -> ClientError:
    return ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}: there is no such topic or partition")


def test_an_error_of_a_topic_gets_the_topic_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafkalite.client, "Admin", FakeAdmin, raising=False)

    async def fail() -> None:
        raise AdminError({"tempratures": unknown_topic("tempratures"), "gone": unknown_topic("gone")})

    with pytest.raises(AdminError) as raised:
        asyncio.run(topic_suggestions.suggesting(fail(), {"bootstrap_servers": "b:1"}))
    with pytest.raises(SystemExit):
        refuse(raised.value.failures)
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("; did you mean temperatures?") and not second.endswith("?")
    assert FakeAdmin.asked[-1]["bootstrap_servers"] == "b:1"


def test_other_errors_ask_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafkalite.client, "Admin", None, raising=False)

    async def fail() -> None:
        raise ClientError(ErrorCode.NOT_CONTROLLER, "topic tempratures")

    with pytest.raises(ClientError):
        asyncio.run(topic_suggestions.suggesting(fail(), {}))
