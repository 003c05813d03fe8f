"""kafka-utils of Yelp: its commands, with a discovery file."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from steps import serve

BOOTSTRAP, ZOOKEEPER = sys.argv[1:3]
DISCOVERY = tempfile.TemporaryDirectory()
Path(DISCOVERY.name, "museum.yaml").write_text(
    f"""clusters:
  shown:
    broker_list: ["{BOOTSTRAP}"]
    zookeeper: "{ZOOKEEPER}"
local_config:
  cluster: shown
"""
)


def run(tool, *arguments):
    where = ("--cluster-type", "museum", "--discovery-base-path", DISCOVERY.name)
    script = shutil.which(tool)  # its first line names the Python that installed it, which may be gone
    done = subprocess.run([sys.executable, script, *where, *arguments], capture_output=True, text=True, timeout=35)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr).strip()[-300:])
    return done.stdout


def describe(topic):
    """As many as have a watermark; and none is offline."""
    assert "OK" in run("kafka-check", "offline")
    return [run("kafka-consumer-manager", "get_topic_watermark", topic).count("Partition ID")]


def lag(topic, group):
    """What `offset_get` prints for each partition."""
    text = run("kafka-consumer-manager", "offset_get", group)
    assert topic in text, text
    return [sum(int(each) for each in re.findall(r"Offset Distance: (\d+)", text))]


def committed(topic, group):
    text = run("kafka-consumer-manager", "offset_get", group)
    return re.findall(r"Current Offset: (\d+)", text) or [text]


def set_offsets(topic, group):
    run("kafka-consumer-manager", "offset_set", group, f"{topic}.0=5", f"{topic}.1=6")


serve({"describe": describe, "lag": lag, "committed": committed, "set_offsets": set_offsets})
