"""OpenTelemetry Collector: log records into a topic by its exporter, and from topics by its receiver, as static members (franz-go)."""

import json
import re
import urllib.request

from kafkalite.local.ports import ReservedPort
from tests.ecosystem import environments
from tests.ecosystem.contract import HERE, Program, Running, Scene
from tests.museum.stage import COUNT

VERSION, CORE, STABLE = "0.165.1", "0.165.0", "1.71.0"
_SHIP = """
receivers:
  otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}
exporters:
  kafka:
    brokers: ["{servers}"]
    logs: {{topic: "{shipped}", encoding: raw}}
    producer: {{compression: zstd, required_acks: all}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{logs: {{receivers: [otlp], exporters: [kafka]}}}}
"""
_KEEP = """
receivers:
  kafka:
    brokers: ["{servers}"]
    group_id: "{group}"
    group_instance_id: "{name}"
    group_rebalance_strategies: [cooperative-sticky]
    initial_offset: earliest
    session_timeout: 60s
    heartbeat_interval: 500ms
    logs: {{topics: ["^{kept}.*"], encoding: text}}
exporters:
  debug: {{verbosity: detailed}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{logs: {{receivers: [kafka], exporters: [debug]}}}}
"""


def _send_logs(port: int, lines: list[str]) -> bool:
    """Send the lines as log records to a collector; False if it does not serve yet."""
    records = [{"body": {"stringValue": line}} for line in lines]
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/logs", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10):
            return True
    except OSError:
        return False


def _bodies(*collectors: Running) -> list[str]:
    """Return what collectors have printed of the log records that they received, sorted."""
    return sorted(body for each in collectors for body in re.findall(r"Body: Str\((.*)\)", each.said))


def _values(*numbers: int) -> list[str]:
    return sorted(f"value-{number}" for number in numbers)


def show(scene: Scene) -> None:
    shipped, kept = scene.stage.create("shipped"), scene.stage.create("kept")
    group = f"group-{kept}"
    told = {"servers": scene.servers, "shipped": shipped, "kept": kept, "group": group}

    def start(name: str, text: str, port: int = 0) -> Running:
        (scene.folder / f"{name}.yaml").write_text(text.format(**told, name=name, port=port))
        return scene.start("--config", scene.folder / f"{name}.yaml", name=name)

    with ReservedPort() as port:
        shipper = start("ship", _SHIP, port.number)
        lines = [f"line {number}" for number in range(COUNT)]
        shipper.until(lambda: _send_logs(port.number, lines), "the collector")
        wanted = sorted(("", json.dumps(line)) for line in lines)  # as `raw` writes text
        shipper.until(lambda: scene.committed_records(shipped) == wanted, "the log records in the topic")

    first, second = start("first", _KEEP), start("second", _KEEP)
    first.until(lambda: scene.is_shared(group, 2), "a group of two")
    scene.stage.write(kept, range(COUNT))
    first.until(lambda: _bodies(first, second) == _values(*range(COUNT)), "the topic's records")
    own = _bodies(second)
    assert len(own) == COUNT // 2, own
    first.stop()
    scene.stage.write(kept, range(COUNT, 2 * COUNT))
    second.until(lambda: len(_bodies(second)) > len(own), "records while a static member is away")
    assert scene.is_shared(group, 2), "the member that is away has lost its partition"
    first = start("first", _KEEP)  # its output goes on in the same file
    first.until(lambda: _bodies(first, second) == _values(*range(2 * COUNT)), "all records, once the member is back")
    assert len(_bodies(second)) == COUNT, _bodies(second)


PROGRAM = Program(
    title="OpenTelemetry Collector",
    version=VERSION,
    tried="log records shipped by its exporter (zstd), and received by a group of static members, of which one goes and comes back",
    setup=lambda: environments.go_program(
        HERE / "apps" / "collector.go",
        f"go.opentelemetry.io/collector/otelcol@v{CORE}",
        f"go.opentelemetry.io/collector/receiver/otlpreceiver@v{CORE}",
        f"go.opentelemetry.io/collector/exporter/debugexporter@v{CORE}",
        f"go.opentelemetry.io/collector/confmap/provider/fileprovider@v{STABLE}",
        f"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/kafkaexporter@v{VERSION}",
        f"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/kafkareceiver@v{VERSION}",
    ),
    show=show,
)
