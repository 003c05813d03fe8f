"""Celery with kombu's transport over confluent-kafka: tasks are called, one after a worker was killed."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene

VERSION = "5.7.0"


def show(scene: Scene) -> None:
    told = {"CELERY_SERVERS": scene.servers, "CELERY_RESULTS": str(scene.folder)}
    app = scene.app("celery_tasks.py")
    work = ("worker", "--pool", "solo", "--loglevel", "WARNING", "--without-gossip", "--without-mingle")
    for run in (1, 2):
        worker = scene.start(app, *work, name=f"worker-{run}", more=told)
        assert scene.run(app, "call", run, more=told).split()[-3:] == [str(run + each) for each in range(3)]
        worker.kill()


PROGRAM = Program(
    title="Celery",
    version=VERSION,
    tried="tasks through kombu's transport over confluent-kafka, by two workers, the first of which is killed",
    setup=lambda: environments.python(f"celery=={VERSION}", "confluent-kafka>=2.2,<3"),
    show=show,
)
