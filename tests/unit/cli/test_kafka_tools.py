"""`kafkalite kafka-tools`: Apache Kafka's names, in a folder of the user's choice and nowhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from click.testing import CliRunner, Result

from kafkalite.cli.main import main
from kafkalite.legacy import KAFKA_VERSION
from kafkalite.tool_names import TOOLS, tool_scripts


def write_tools(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["kafka-tools", *map(str, arguments)])


def test_the_tools_run_by_both_of_their_names_from_any_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a folder's tools"
    assert write_tools(folder).exit_code == 0
    assert {path.name for path in folder.iterdir()} == {*TOOLS, *(f"{name}.sh" for name in TOOLS)}
    (tmp_path / "kafkalite").mkdir()  # no module of the folder that it is called in is taken for ours
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["kafka-topics.sh", "--version"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(KAFKA_VERSION)
    shell = subprocess.run([folder / "zookeeper-shell"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert shell.returncode == 1 and shell.stdout.startswith("USAGE: zookeeper-shell zookeeper_host:port")


def test_the_path_is_told_as_a_shell_takes_it(tmp_path: Path) -> None:
    folder = tmp_path / "it's"
    told = write_tools(folder).stdout
    done = subprocess.run(
        ["sh", "-c", f"{told}command -v kafka-topics"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"{folder}/kafka-topics\n"


def test_a_second_call_replaces_what_the_first_has_written(tmp_path: Path) -> None:
    tmp_path.joinpath("kafka-acls").write_text(tool_scripts("/gone/python")["kafka-acls"])
    assert write_tools(tmp_path).exit_code == 0
    assert "/gone/python" not in tmp_path.joinpath("kafka-acls").read_text()


def test_nothing_of_an_apache_kafka_is_replaced(tmp_path: Path) -> None:
    foreign = tmp_path / "kafka-topics.sh"
    foreign.write_text("#!/bin/bash\nexec $(dirname $0)/kafka-run-class.sh org.apache.kafka.tools.TopicCommand\n")
    link = tmp_path / "kafka-acls"
    link.symlink_to(tmp_path / "elsewhere")
    result = write_tools(tmp_path)
    assert result.exit_code == 1
    assert f"{link} was not written by kafka-tools, and is not replaced; name another folder" in result.output
    assert "kafka-run-class" in foreign.read_text() and len(list(tmp_path.iterdir())) == 2


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    result = write_tools(tmp_path / "tools", "--dry-run")
    assert result.exit_code == 0 and f"{tmp_path}/tools/kafka-topics.sh\n" in result.output
    assert not (tmp_path / "tools").exists()
