"""Command lines as joptsimple, which Kafka's tools use, reads them."""

from __future__ import annotations

import pytest

from kafkalite.legacy.command_line.failures import ToolError, UsageError
from kafkalite.legacy.command_line.option_parser import Argument, Option, Options, flag, integer, long, text

TOPIC, LIST, COUNT, STATE = text("topic"), flag("list"), integer("partitions"), Option("state", Argument.OPTIONAL)
KEYS = Option("delete-config", Argument.REQUIRED, separator=",")


def read(*arguments: str) -> Options:
    return Options("kafka-topics", (TOPIC, LIST, COUNT, STATE, KEYS), arguments)


@pytest.mark.parametrize("arguments", [["--topic", "t"], ["--topic=t"], ["-topic", "t"], ["-topic=t"]])
def test_values_come_behind_a_blank_or_an_equals_sign(arguments: list[str]) -> None:
    assert read(*arguments).value(TOPIC) == "t"


def test_a_needed_value_is_taken_whatever_it_looks_like() -> None:
    options = read("--topic", "--list")
    assert options.value(TOPIC) == "--list"
    assert not options.has(LIST)


def test_an_optional_value_does_not_look_like_an_option() -> None:
    options = read("--state", "--list")
    assert options.has(STATE) and not options.has_value(STATE) and options.has(LIST)
    assert read("--state", "stable").value(STATE) == "stable"


def test_two_dashes_end_the_options() -> None:
    options = read("one", "--", "--list")
    assert options.others == ["one", "--list"]
    assert not options.has(LIST)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bogus"], "bogus is not a recognized option"),
        (["-bogus"], "b is not a recognized option"),
        (["--top", "t"], "top is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
    ],
)
def test_what_cannot_be_read_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(*arguments)


def test_values_are_converted_when_they_are_asked_for() -> None:
    options = read("--partitions", "x")
    with pytest.raises(ToolError, match="Cannot parse argument 'x' of option partitions"):
        options.value(COUNT)


def test_two_values_are_one_too_many_only_where_one_is_wanted() -> None:
    options = read("--topic", "a", "--topic", "b")
    assert options.values(TOPIC) == ["a", "b"]
    with pytest.raises(ToolError, match="Found multiple arguments for option topic"):
        options.value(TOPIC)


def test_separated_values_are_several() -> None:
    assert read("--delete-config", "a,b", "--delete-config", "c").values(KEYS) == ["a", "b", "c"]


@pytest.mark.parametrize("number", ["2147483648", "-2147483649", "1.5", "", "٣"])
def test_numbers_are_those_of_java(number: str) -> None:
    with pytest.raises(ValueError, match="bits"):
        integer("n").convert(number)


def test_a_long_has_64_bits() -> None:
    assert long("n").convert("-9223372036854775808") == -(2**63)
    assert long("n").convert("+7") == 7


def test_refusing_prints_the_message_and_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read("--list").require(TOPIC)
    assert ended.value.code == 1
    shown = capsys.readouterr().err
    assert shown.startswith('Missing required argument "[topic]"\nOption ')
    assert "--bootstrap-server <String: server to" in shown
