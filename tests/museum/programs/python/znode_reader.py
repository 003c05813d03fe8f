"""Reads znodes as tools of the time when everything was in ZooKeeper do, and believes what they do.

CMAK takes brokers that have `host`, `port` and parsable `endpoints`, topics whose partitions have a state, the controller's `brokerid`, and
of groups below /consumers the offsets and the owners; Burrow's `kafka_zk` takes the same offsets and owners; exporters of ZooKeeper
take topics and states.
"""

import json
import re
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from steps import serve

ZOOKEEPER = sys.argv[2]
ENDPOINT = re.compile(r"([A-Z_]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
CLIENT = KazooClient(ZOOKEEPER)
CLIENT.start(20)


def read(path):
    return CLIENT.get(path)[0].decode()


def brokers():
    found = {}
    for each in CLIENT.get_children("/brokers/ids"):
        described = json.loads(read(f"/brokers/ids/{each}"))
        endpoints = [ENDPOINT.fullmatch(endpoint).groups() for endpoint in described["endpoints"]]
        assert isinstance(described["port"], int) and isinstance(described["jmx_port"], int), described
        assert described["host"] and endpoints and int(described["timestamp"]) > 0 and described["version"] >= 1
        protocols = described["listener_security_protocol_map"]
        assert all(name in protocols for name, _, _ in endpoints), described
        found[int(each)] = (described["host"], described["port"])
    return found


def describe(topic):
    """The partitions that have a leader which lives, by the topic's znodes."""
    known = brokers()
    assert json.loads(read("/controller"))["brokerid"] in known
    assert int(read("/controller_epoch")) > 0
    assignment = json.loads(read(f"/brokers/topics/{topic}"))
    assert assignment["version"] in (1, 2, 3), assignment
    assert isinstance(json.loads(read(f"/config/topics/{topic}"))["config"], dict)
    led = 0
    for partition, replicas in assignment["partitions"].items():
        state = json.loads(read(f"/brokers/topics/{topic}/partitions/{partition}/state"))
        assert state["version"] == 1 and state["controller_epoch"] > 0 and state["leader_epoch"] >= 0, state
        assert set(state["isr"]) <= set(replicas)
        led += state["leader"] in known
    return [led]


def offsets(topic, group):
    """What is committed below /consumers, and who owns the partitions."""
    partitions = sorted(CLIENT.get_children(f"/consumers/{group}/offsets/{topic}"), key=int)
    for each in partitions:
        try:
            owner = read(f"/consumers/{group}/owners/{topic}/{each}")
        except NoNodeError:
            continue
        assert owner.rpartition("-")[0] in CLIENT.get_children(f"/consumers/{group}/ids"), owner
    return [int(read(f"/consumers/{group}/offsets/{topic}/{each}")) for each in partitions]


serve({"describe": describe, "znode_offsets": offsets})
