"""faust-streaming: an agent and a table with its changelog."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

VERSION = "0.15.3"


def show(scene: Scene) -> None:
    """At least once is what it promises: a count may be written again.

    One worker only: that which follows another one leaves a record out at times, here and on Apache Kafka.
    """
    source, target = scene.stage.create("faust-words"), scene.stage.create("faust-counts")
    told = {"FAUST_SERVERS": scene.servers, "FAUST_SOURCE": source, "FAUST_TARGET": target}
    words = ("--datadir", scene.folder / "data", "worker", "--loglevel", "info", "--without-web")
    worker = scene.start(scene.app("faust_count.py"), *words, more=told)
    for run in ("1", "2"):
        scene.stage.write(source, range(COUNT))
        wanted = {(f"key-{number}", run) for number in range(COUNT)}
        worker.until(lambda wanted=wanted: wanted <= set(scene.committed_records(target)), "counts")  # type: ignore[misc]
    worker.stop()
    changelog = scene.committed_records(f"counting-{source}-counts-changelog")
    assert {key.strip('"') for key, _ in changelog} == {f"key-{number}" for number in range(COUNT)}, changelog


PROGRAM = Program(
    title="faust-streaming",
    version=VERSION,
    tried="an agent that counts in a table with a changelog",
    setup=lambda: environments.python(f"faust-streaming=={VERSION}"),
    show=show,
)
