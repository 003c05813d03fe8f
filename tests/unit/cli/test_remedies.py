"""Words of other tools, and Apache Kafka's options: taken where they mean the same, and answered with what to type where they do not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.kafka_words import remedies
from kafkalite.cli.main import main
from kafkalite.protocol.apis import ApiKey
from tests.command_tree import all_commands, command_name
from tests.unit.client.fake_broker import FakeCluster


def call(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin, prog_name="kafkalite")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("topics", "No such command 'topics'. Did you mean 'kafkalite topic'?"),
        ("kafka-topics.sh", "No such command 'kafka-topics.sh'. Did you mean 'kafkalite topic'?"),
        ("kafka-console-consumer", "No such command 'kafka-console-consumer'. Did you mean 'kafkalite consume'?"),
        ("toppic", "No such command 'toppic'. Did you mean 'topic'?"),
        ("frobnicate", "No such command 'frobnicate'."),
        ("topic ls", "No such command 'ls'. Did you mean 'kafkalite topic list'?"),
        ("topic lst", "No such command 'lst'. Did you mean 'list'?"),
        (
            "partition reassign generate",
            "No such command 'generate'. Did you mean 'kafkalite partition reassign plan'?",
        ),
        ("spark nightly", "No such command 'nightly'. Did you mean 'kafkalite spark run'?"),
        (
            "--bootstrap-server h:1 topic list",
            "No such option '--bootstrap-server'. "
            "It comes behind a command, as in 'kafkalite topic list --bootstrap-server …'.",
        ),
        ("--verison", "No such option '--verison'. Did you mean '--version'?"),
        ("topic --list", "No such option '--list'. Did you mean 'kafkalite topic list'?"),
        ("topic --create --topic t", "No such option '--create'. Did you mean 'kafkalite topic create'?"),
        (
            "topic alter t --partitions 9",
            "No such command 'alter'. 'kafkalite partition add TOPIC TOTAL' adds partitions, "
            "'kafkalite config set KEY=VALUE --topic TOPIC' changes settings.",
        ),
        ("topic list --zookeeper z", "No such option '--zookeeper'. Brokers are asked: use --bootstrap-server."),
        ("produce t --broker-list b:1", "No such option '--broker-list'. Use --bootstrap-server."),
        ("consume t --timeout-ms 5", "No such option '--timeout-ms'. Use --idle-timeout, in seconds."),
        ("config alter --add-config a=b", "No such option '--add-config'. Use --set KEY=VALUE, once for each."),
        ("topic list --outptu json", "No such option '--outptu'. Did you mean '--output'?"),
    ],
)
def test_what_there_is_not_is_answered_with_what_was_meant(typed: str, said: str) -> None:
    result = call(*typed.split())
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {said}")


def commands_below(noun: str) -> Iterator[click.Command]:
    yield from (command for name, command in all_commands() if noun in ("", name.split()[0]))


@pytest.mark.parametrize("noun", remedies._OPTIONS)
def test_remedies_name_what_there_is(noun: str) -> None:
    below = list(commands_below(noun))
    assert below
    options = {text for command in below for each in command.params for text in (*each.opts, *each.secondary_opts)}
    for option, remedy in remedies._OPTIONS[noun].items():
        lacking = [each for each in below if all(option not in parameter.opts for parameter in each.params)]
        assert lacking, f"every command below {noun!r} has {option}"
        assert not (named := set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", remedy)) - options - all_options()), named
        for line in re.findall(r"'kafkalite ([^']+)'", remedy):
            assert command_name(line.split()) in dict(all_commands()), line


def all_options() -> set[str]:
    return {text for command in commands_below("") for each in command.params for text in each.opts}


def test_commands_by_other_names_are_there() -> None:
    for meant in remedies._COMMANDS.values():
        assert meant.startswith("--") or command_name(meant.split()) == meant


def test_no_synonym_hides_a_command() -> None:
    """One that is a command of some group is a synonym in the groups that lack it."""
    assert call("acl", "add", "--help").exit_code == 0
    assert call("cluster", "info", "--help").exit_code == 0
    assert call("partition", "add", "--help").exit_code == 0


def test_topics_and_groups_may_be_named_as_in_kafkas_tools(cluster: FakeCluster) -> None:
    assert call("topic", "describe", "--topic", "t").stdout == call("topic", "describe", "t").stdout != ""
    assert call("topic", "list", "--bootstrap-server", "fake:9001").exit_code == 0
    assert call("produce", "--topic", "t", "-p", "0", stdin=b"one\n").exit_code == 0
    read = call("consume", "--topic", "t", "--from-beginning", "--max-messages", "1", "--partition", "0")
    assert (read.exit_code, read.stdout) == (0, "one\n")
    assert call("offset", "list", "--topic", "t").stdout == call("offset", "list", "t").stdout != ""
    assert call("topic", "create", "a", "--topic", "b", "--partitions", "2", "--replication-factor", "1").exit_code != 2
    (request,) = cluster.requests_of(ApiKey.CREATE_TOPICS)
    assert [each.name for each in request.topics] == ["a", "b"]
    assert {(each.num_partitions, each.replication_factor) for each in request.topics} == {(2, 1)}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("consume --topic a b", "TOPIC is given twice; --topic is another way to name it"),
        ("consume --topic a --topic b", "TOPIC is given twice; --topic is another way to name it"),
        ("consume", "Missing argument 'TOPIC'."),
        ("topic create --partitions 3", "Missing argument 'NAMES...'."),
        ("consume t --from-beginning --offset end", "--from-beginning, and --offset end: give one of them"),
    ],
)
def test_a_topic_is_named_once(typed: str, said: str) -> None:
    result = call(*typed.split())
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {said}")


def test_the_other_ways_are_not_in_the_help() -> None:
    shown = call("consume", "--help").stdout
    assert "--from-beginning" not in shown and "--topic" not in shown and "TOPIC" in shown
