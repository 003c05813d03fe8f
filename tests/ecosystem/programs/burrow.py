"""Burrow of Debian: it reads `__consumer_offsets` and ZooKeeper, and judges the lag of groups."""

import json
import urllib.request
from typing import Any

from kafkalite.local.ports import ReservedPort
from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

_SETTINGS = """
[general]
pidfile="{folder}/burrow.pid"
[zookeeper]
servers=["{zookeeper}"]
timeout=6
root-path="/burrow"
[client-profile.shown]
client-id="burrow"
kafka-version="1.0.0"
[cluster.shown]
class-name="kafka"
servers=["{servers}"]
client-profile="shown"
topic-refresh=2
offset-refresh=1
[consumer.shown]
class-name="kafka"
cluster="shown"
servers=["{servers}"]
client-profile="shown"
start-latest=false
offsets-topic="__consumer_offsets"
[consumer.shown_zk]
class-name="kafka_zk"
cluster="shown"
servers=["{zookeeper}"]
zookeeper-path=""
zookeeper-timeout=30
[httpserver.default]
address="127.0.0.1:{port}"
"""


def show(scene: Scene) -> None:
    topic = scene.stage.create("watched")
    scene.stage.write(topic, range(COUNT))
    group = f"group-{topic}"
    scene.stage.commit_to_zookeeper(topic, f"old-{group}", {0: 2, 1: 4})
    with ReservedPort() as port:
        told = {
            "folder": scene.folder,
            "zookeeper": scene.stage.zookeeper,
            "servers": scene.servers,
            "port": port.number,
        }
        (scene.folder / "burrow.toml").write_text(_SETTINGS.format(**told))
        burrow = scene.start(scene.environment.folder / "usr/bin/Burrow", "--config-dir", scene.folder)

        def lags(name: str) -> dict[int, int]:
            """By partition, as far as it knows yet."""
            url = f"http://127.0.0.1:{port.number}/v3/kafka/shown/consumer/{name}/lag"
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    status: dict[str, Any] = json.load(answer)["status"]
            except OSError:
                return {}
            return {each["partition"]: each["current_lag"] for each in status["partitions"]}

        def both() -> bool:
            scene.stage.commit(topic, group, {0: 4, 1: 9})  # it judges what is committed while it looks
            return lags(group) == {0: 6, 1: 1} and lags(f"old-{group}") == {0: 8, 1: 6}

        burrow.until(both, "the lag of both groups")


PROGRAM = Program(
    title="Burrow",
    version="Debian 12's",
    tried="the lag of a group whose offsets lie in `__consumer_offsets` and of one whose offsets lie in ZooKeeper",
    setup=lambda: environments.debian("burrow"),
    show=show,
    quick=True,
)
