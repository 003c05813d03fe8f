"""Completion: what a shell is answered, from a broker that is a thread of the test, and that nothing ever goes wrong visibly."""

from __future__ import annotations

import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kafkalite.cli.completion.query import BrokerAddress, Deadline, Names, Server, groups_of, names_of
from kafkalite.cli.completion.words import kind_of
from kafkalite.cli.main import main
from kafkalite.net.frames import LENGTH, read_head, response_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey

Complete = Callable[..., list[str]]


class _Broker(socketserver.ThreadingTCPServer):
    """Answers Metadata with itself and two topics, and ListGroups with two groups; `served` counts requests."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server = Server("127.0.0.1", self.server_address[1])
        self.served = 0

    def answer(self, api_key: int) -> Any:
        if api_key == ApiKey.LIST_GROUPS:
            m = messages.list_groups_response
            return m.ListGroupsResponse(groups=[m.ListedGroup(group_id=each) for each in ("writers", "readers")])
        m = messages.metadata_response
        topics = [
            m.MetadataResponseTopic(
                name=name, partitions=[m.MetadataResponsePartition(partition_index=each) for each in range(count)]
            )
            for name, count in (("orders", 3), ("old", 1), ("__consumer_offsets", 50))
        ]
        broker = m.MetadataResponseBroker(node_id=7, host=self.server.host, port=self.server.port)
        return m.MetadataResponse(brokers=[broker], controller_id=7, topics=topics)


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Broker)
        size = self.request.recv(LENGTH.size, socket.MSG_WAITALL)
        frame = self.request.recv(LENGTH.unpack(size)[0], socket.MSG_WAITALL)
        api_key, version, correlation_id = read_head(frame)
        body = codec.encode_response(self.server.answer(api_key), version)
        self.server.served += 1
        self.request.sendall(b"".join(response_frame(APIS[api_key], version, correlation_id, body)))


@pytest.fixture
def broker() -> Iterator[_Broker]:
    with _Broker() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def silent() -> Iterator[Server]:
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Server("127.0.0.1", listening.getsockname()[1])


def soon(seconds: float = 20) -> Deadline:
    return Deadline(seconds, time.monotonic)


def closed_port() -> Server:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return Server("127.0.0.1", bound.getsockname()[1])


def test_the_first_server_that_answers_is_enough(broker: _Broker) -> None:
    expected = Names((BrokerAddress(7, *broker.server),), {"orders": 3, "old": 1})
    assert names_of([broker.server], soon()) == expected
    assert names_of([closed_port(), broker.server, broker.server], soon()) == expected
    assert broker.served == 2
    assert groups_of([broker.server], soon()) == ["readers", "writers"]


def test_silence_takes_only_its_share_of_the_time(broker: _Broker, silent: Server) -> None:
    assert names_of([silent, broker.server], soon(5)).topics
    began = time.monotonic()
    assert names_of([silent], soon(0.1)) == Names() and groups_of([silent], soon(0.1)) == []
    assert time.monotonic() - began < 5
    assert names_of([broker.server], Deadline(-1, time.monotonic)) == Names()


def test_a_stranger_is_no_broker() -> None:
    class Stranger(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"SSH-2.0-Nonsense\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Stranger) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        assert names_of([Server("127.0.0.1", running.server_address[1])], soon()) == Names()
        running.shutdown()
        thread.join()


@pytest.fixture
def complete(broker: _Broker, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """What bash is answered for a line up to the cursor: kind and value of each candidate."""
    monkeypatch.setattr(
        click.ParamType, "shell_complete", click.ParamType.shell_complete
    )  # put back what completion changes

    def answered(line: str, **environment: str) -> list[str]:
        variables = {
            "_KAFKALITE_COMPLETE": "bash_complete",
            "COMP_LINE": line,
            "KAFKALITE_BOOTSTRAP_SERVERS": f"{broker.server.host}:{broker.server.port}",
            "KAFKALITE_COMPLETION_BUDGET_MS": "1e9",  # also counts the processor time of the tests before
            **environment,
        }
        result = CliRunner().invoke(main, [], prog_name="kafkalite", env=variables)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout.split()

    return answered


def test_a_shell_asks_with_a_process(broker: _Broker, own_contexts: Path) -> None:
    variables = {
        "_KAFKALITE_COMPLETE": "bash_complete",
        "COMP_LINE": f"kafkalite topic describe -b 127.0.0.1:1,{broker.server.host}:{broker.server.port} ol",
        "KAFKALITE_COMPLETION_BUDGET_MS": "30000",
        "KAFKALITE_CONFIG": str(own_contexts),
    }
    program = "from kafkalite.cli.main import main; main(prog_name='kafkalite')"
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "plain,old\n", "")


def test_commands_options_and_choices(complete: Complete) -> None:
    assert complete("kafkalite top") == ["plain,topic"]
    assert {"plain,topic", "plain,group", "plain,perf"} <= set(complete("kafkalite "))
    assert complete("kafkalite topic desc") == ["plain,describe"]
    assert complete("kafkalite topic list --internal --tim") == ["plain,--timeout"]
    assert complete("kafkalite topic list -o j") == ["plain,json", "plain,jsonl"]
    assert complete("kafkalite broker --config ") == ["file,"]


def test_names_in_the_cluster(complete: Complete, broker: _Broker) -> None:
    assert complete("kafkalite topic describe ") == ["plain,old", "plain,orders"]
    assert complete("kafkalite topic describe old o") == ["plain,orders"], "what is there already is not offered again"
    assert complete("kafkalite consume or") == ["plain,orders"]
    assert complete("kafkalite consume orders -p ") == ["plain,0", "plain,1", "plain,2"]
    assert complete("kafkalite group describe r") == ["plain,readers"]
    assert complete("kafkalite leader elect or") == ["plain,orders-0", "plain,orders-1", "plain,orders-2"]
    assert complete("kafkalite topic create o") == [], "a new topic's name is nowhere yet"
    assert complete("kafkalite topic create new -c retention.m") == ["open,retention.ms="]
    assert complete("kafkalite topic list -X retry.backoff.m") == [
        "open,retry.backoff.max.ms=",
        "open,retry.backoff.ms=",
    ]


def test_the_line_says_which_cluster(complete: Complete, broker: _Broker, own_contexts: Path) -> None:
    port = broker.server.port
    nowhere = {"KAFKALITE_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    assert complete("kafkalite topic describe ol", **nowhere) == []
    assert complete(f"kafkalite topic describe -b 127.0.0.1:{port} ol", **nowhere) == ["plain,old"]
    own_contexts.write_text(f"[contexts.mine]\nbootstrap.servers = '127.0.0.1:{port}'\n")
    assert complete("kafkalite topic describe --context mine ol", **nowhere) == ["plain,old"]
    assert complete("kafkalite topic describe --context ") == ["plain,mine"]
    assert complete("kafkalite context use m") == ["plain,mine"]


def test_bash_gets_what_stands_behind_its_word_breaks(complete: Complete, broker: _Broker) -> None:
    host, port = broker.server
    assert complete(f"kafkalite topic list -b {host}:", COMP_WORDBREAKS=" :=") == [f"plain,{port}"]
    assert complete(f"kafkalite topic list -b {host}:", COMP_WORDBREAKS=" =") == [f"plain,{host}:{port}"]
    assert complete("kafkalite topic list --output=y", COMP_WORDBREAKS=" :=") == ["plain,yaml"]


def test_trouble_is_silent(complete: Complete, silent: Server, own_contexts: Path) -> None:
    at_once = {"KAFKALITE_BOOTSTRAP_SERVERS": f"{silent.host}:{silent.port}", "KAFKALITE_COMPLETION_BUDGET_MS": "1"}
    assert complete("kafkalite topic describe ", **at_once) == []
    assert complete("kafkalite topic describe ", KAFKALITE_COMPLETION_BUDGET_MS="much") == []
    assert complete('kafkalite topic describe "o') == ["plain,old", "plain,orders"]
    own_contexts.write_text("broken")
    assert complete("kafkalite topic describe ") == []


def test_the_commands_script_is_what_the_shell_needs() -> None:
    for shell in ("bash", "zsh", "fish"):
        script = CliRunner().invoke(main, ["completion", shell]).stdout
        assert f"_KAFKALITE_COMPLETE={shell}_complete" in script and "kafkalite" in script
    syntax = subprocess.run(
        ["bash", "-n"], input=CliRunner().invoke(main, ["completion", "bash"]).stdout, text=True, capture_output=True
    )
    assert (syntax.returncode, syntax.stderr) == (0, "")
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2


def _leaves(command: click.Command, ctx: click.Context) -> Iterator[click.Context]:
    if not isinstance(command, click.Group):
        yield ctx
        return
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None
        yield from _leaves(found, click.Context(found, ctx, name))


def test_arguments_that_are_names_complete_in_every_command() -> None:
    """A command that calls its topics, groups or contexts something else would not complete them."""
    nouns = {"TOPIC": "topics", "GROUP": "groups", "TOPIC-N": "partitions"}
    for ctx in _leaves(main, click.Context(main, info_name="kafkalite")):
        for each in ctx.command.params:
            noun = (each.metavar or "").strip("[].")
            if noun in nouns or each.name in ("topic", "group_id", "context"):
                assert kind_of(ctx, each) in (*nouns.values(), "contexts"), f"{ctx.command_path}: {each.name}"
