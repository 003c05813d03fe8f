"""A task that adds, its worker, and a program that calls it (`call NUMBER`)."""

import os
import sys

from celery import Celery

app = Celery(
    "celery_tasks",
    broker=f"confluentkafka://{os.environ['CELERY_SERVERS']}",
    backend=f"file://{os.environ['CELERY_RESULTS']}",
)
app.conf.broker_connection_retry_on_startup = True


@app.task(name="add")
def add(left: int, right: int) -> int:
    return left + right


if __name__ == "__main__":
    if sys.argv[1] == "call":
        for each in [add.delay(int(sys.argv[2]), number) for number in range(3)]:
            print(each.get(timeout=90, interval=0.05))
    else:
        app.start(sys.argv[1:])
