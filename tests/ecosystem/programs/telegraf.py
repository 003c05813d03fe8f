"""Telegraf: lines of a file into a topic by `outputs.kafka`, and a topic into a file by `inputs.kafka_consumer`, with sarama."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

VERSION = "1.37.2"
_PLUGINS = (
    "inputs.tail",
    "inputs.kafka_consumer",
    "outputs.kafka",
    "outputs.file",
    "parsers.value",
    "serializers.template",
)
_AGENT = """
[agent]
  interval = "1s"
  flush_interval = "200ms"
  omit_hostname = true
"""
_SHIP = """
[[inputs.tail]]
  files = ["{folder}/source.log"]
  initial_read_offset = "beginning"
  watch_method = "poll"
  data_format = "value"
  data_type = "string"
  name_override = "line"
[[outputs.kafka]]
  brokers = ["{servers}"]
  version = "3.6.0"
  topic = "{shipped}"
  routing_key = "telegraf"
  compression_codec = 4
  required_acks = -1
  idempotent_writes = true
  data_format = "template"
  template = '{{{{ .Field "value" }}}}'
"""
_KEEP = """
[[inputs.kafka_consumer]]
  brokers = ["{servers}"]
  kafka_version = "3.6.0"
  topic_regexps = ["^{kept}$"]
  consumer_group = "{group}"
  offset = "oldest"
  balance_strategy = "sticky"
  data_format = "value"
  data_type = "string"
[[outputs.file]]
  files = ["{file}"]
  data_format = "template"
  template = "{{{{ .Field \\"value\\" }}}}\\n"
"""


def show(scene: Scene) -> None:
    shipped, kept = scene.stage.create("shipped"), scene.stage.create("kept")
    group = f"group-{kept}"
    (scene.folder / "source.log").write_text("".join(f"line {number}\n" for number in range(COUNT)))
    files = {name: scene.folder / f"{name}.log" for name in ("first", "second")}
    for name, text in {"ship": _SHIP, **dict.fromkeys(files, _KEEP)}.items():
        told = {"folder": scene.folder, "servers": scene.servers, "shipped": shipped, "kept": kept, "group": group}
        (scene.folder / f"{name}.conf").write_text(_AGENT + text.format(**told, file=files.get(name)))
    shipper = scene.start("--config", scene.folder / "ship.conf", name="ship")
    lines = sorted(("telegraf", f"line {number}") for number in range(COUNT))
    shipper.until(lambda: scene.committed_records(shipped) == lines, "the lines of the file")

    def read_values() -> list[str]:
        return sorted(
            line for file in files.values() if file.exists() for line in file.read_text().splitlines() if line
        )

    def values(count: int) -> list[str]:
        return sorted(f"value-{number}" for number in range(count))

    first, second = (scene.start("--config", scene.folder / f"{name}.conf", name=f"keep-{name}") for name in files)
    first.until(lambda: scene.is_shared(group, 2), "a group of two")
    scene.stage.write(kept, range(COUNT))
    first.until(lambda: read_values() == values(COUNT), "the topic's records")
    first.until(lambda: scene.stage.committed(kept, group) == {0: COUNT // 2, 1: COUNT // 2}, "the group's offsets")
    assert all(file.read_text().strip() for file in files.values()), "one of the group's members has read nothing"
    first.stop()
    scene.stage.write(kept, range(COUNT, 2 * COUNT))
    second.until(lambda: read_values() == values(2 * COUNT), "what came after a member of the group left")


PROGRAM = Program(
    title="Telegraf",
    version=VERSION,
    tried="a file's lines shipped by an idempotent producer (zstd), a topic kept in files by a group that loses a member",
    setup=lambda: environments.go(f"github.com/influxdata/telegraf/cmd/telegraf@v{VERSION}", "custom", *_PLUGINS),
    show=show,
)
