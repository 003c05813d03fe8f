"""Command lines and messages as argparse4j makes them; the texts are those of Apache Kafka's kafka-transactions."""

from __future__ import annotations

import pytest

from kafkalite.legacy.command_line.argument_parser import Argument, Misuse, check_required, justify, read_arguments
from kafkalite.legacy.command_line.option_parser import java_integer
from kafkalite.legacy.transactions import main

NAME, NUMBER = Argument("--name", required=True), Argument("--number", "Integer", java_integer(32), default=3)


@pytest.mark.parametrize(
    "lines",
    [
        ["kafka-transactions.sh: error: argument --bootstrap-server is required"],
        [
            "kafka-transactions.sh:  error:   argument   --duration-filter:   could  not",
            "convert 'x' to Long (For input string: \"x\")",
        ],
        [
            "kafka-transactions.sh: error:  argument  --bootstrap-server:  expected  one",
            "argument",
        ],
        [
            "kafka-transactions.sh: error: invalid choice:  'nope'  (choose from 'list',",
            "'describe', 'describe-producers', 'abort', 'find-hanging')",
        ],
    ],
)
def test_messages_are_broken_where_kafkas_are(lines: list[str]) -> None:
    assert justify(" ".join(word for line in lines for word in line.split())) == "\n".join(lines)


def test_options_are_abbreviated_and_end_where_a_command_begins() -> None:
    found, left = read_arguments((NAME, NUMBER), ["--na", "a", "--number=5", "--name", "b", "list", "--x"])
    assert found == {"--name": "b", "--number": 5} and left == ["list", "--x"]
    assert read_arguments((NAME, NUMBER), [])[0] == {"--name": None, "--number": 3}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--other", "1"], "unrecognized arguments: '--other'"),
        (["-x"], "unrecognized arguments: '-x'"),
        (["--n", "1"], "ambiguous option: --n could match --name, --number"),
        (["--name"], "argument --name: expected one argument"),
        (["--number", "x"], "argument --number: could not convert 'x' to Integer (For input string: \"x\")"),
        ([], "argument --name is required"),
    ],
)
def test_mistakes(words: list[str], message: str) -> None:
    with pytest.raises(Misuse) as raised:
        check_required((NAME, NUMBER), read_arguments((NAME, NUMBER), words)[0])
    assert str(raised.value) == message


def test_help_is_of_the_command_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bootstrap-server", "b:1", "describe", "--help"]) == 1
    assert "Describe the state of an active transactional-id." in capsys.readouterr().out
    assert main(["--help"]) == 1
    assert "find hanging transactions" in capsys.readouterr().out
    assert main(["--bootstrap-server", "b:1", "abort"]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("usage:") and complaint.endswith("argument --partition is required\n")
