"""rsyslog of Debian: a log file into a topic by omkafka, and a topic into a file by imkafka."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

_SETTINGS = """
global(workDirectory="{folder}")
module(load="imfile" mode="polling" pollingInterval="1")
module(load="omkafka")
module(load="imkafka")
template(name="line" type="string" string="%msg%")
template(name="kept" type="string" string="%rawmsg%\\n")
ruleset(name="ship") {{
  action(type="omkafka" broker=["{servers}"] topic="{shipped}" key="rsyslog" template="line"
         confParam=["compression.codec=lz4", "acks=all"])
}}
ruleset(name="keep") {{
  action(type="omfile" file="{folder}/kept.log" template="kept")
}}
input(type="imfile" file="{folder}/source.log" tag="source" ruleset="ship")
input(type="imkafka" topic="{kept}" broker=["{servers}"] consumergroup="rsyslog" ruleset="keep"
      confParam=["auto.offset.reset=earliest"])
"""


def show(scene: Scene) -> None:
    shipped, kept = scene.stage.create("shipped"), scene.stage.create("kept")
    scene.stage.write(kept, range(COUNT))
    modules = next(scene.environment.folder.glob("usr/lib/*-linux-gnu*/rsyslog"))
    told = {"folder": scene.folder, "servers": scene.servers, "shipped": shipped, "kept": kept}
    (scene.folder / "rsyslog.conf").write_text(_SETTINGS.format(**told))
    (scene.folder / "source.log").write_text("".join(f"line {number}\n" for number in range(COUNT)))
    daemon = scene.environment.folder / "usr/sbin/rsyslogd"
    files = ("-f", scene.folder / "rsyslog.conf", "-i", scene.folder / "pid", "-M", modules)
    server = scene.start(daemon, "-n", "-C", *files)
    lines = sorted(("rsyslog", f"line {number}") for number in range(COUNT))
    server.until(lambda: scene.committed_records(shipped) == lines, "the lines of the file")
    values = sorted(f"value-{number}" for number in range(COUNT))
    target = scene.folder / "kept.log"
    server.until(lambda: target.exists() and sorted(target.read_text().split()) == values, "the topic's records")


PROGRAM = Program(
    title="rsyslog",
    version="Debian 12's",
    tried="a file's lines shipped into a topic (omkafka, lz4), a topic's records kept in a file (imkafka)",
    setup=lambda: environments.debian("rsyslog", "rsyslog-kafka", "libestr0", "libfastjson4", "librdkafka1"),
    show=show,
    quick=True,
)
