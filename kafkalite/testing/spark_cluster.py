"""A standalone Spark cluster on this machine: a master and workers as processes of the pyspark package.

    with SparkCluster(directory, workers=2) as cluster:
        spark = SparkSession.builder.master(cluster.url).getOrCreate()
        cluster.kill_worker(1)

Executors run this interpreter, so they have what is installed in its environment. Below `directory` lie `master.log`, `worker-<n>.log`
and the workers' own folders, with an output of every executor. Needs pyspark and Java 17.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from kafkalite.local.broker_process import wait_until
from zk.servers.ensemble import HOST, end_with_parent

__all__ = ["SparkCluster", "spark_home"]

_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_URL: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"
_STOP_TIMEOUT_S: Final = 15.0


def spark_home() -> Path:
    """Return the folder of the pyspark package. ImportError without one."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ImportError("pyspark is not installed; install kafkalite[spark]")
    return Path(found.origin).parent


class _Daemon:
    """A master or worker with all that it starts: one process group."""

    def __init__(self, name: str, log_path: Path, arguments: list[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.log_path = log_path
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("ab") as log:
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                [str(spark_home() / "bin" / "spark-class"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(environment),
                preexec_fn=end_with_parent(),
            )

    def output(self) -> str:
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def has_said(self, text: str) -> bool:
        """True if it has printed `text`. RuntimeError, with its output, when it has ended without."""
        ended = self.process.poll() is not None
        if text in (output := self.output()):
            return True
        if ended:
            raise RuntimeError(f"{self.name} ended with status {self.process.returncode}:\n{output[-4000:]}")
        return False

    def signal_all(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()  # a worker ends its executors
            try:
                self.process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self) -> None:
        self.signal_all(signal.SIGKILL)
        self.process.wait(_STOP_TIMEOUT_S)


class SparkCluster:
    """A master and workers of Spark on this machine. Workers are numbered from 1.

    Each offers `worker_cores` cores and `worker_memory_mb` to executors.

    `java_options` are those of the master and the workers; executors have the session's `spark.executor.extraJavaOptions`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        workers: int = 2,
        worker_cores: int = 1,
        worker_memory_mb: int = 1024,
        start_timeout_s: float = 90,
        java_options: str = "",
    ) -> None:
        self._directory = directory
        self._numbers = range(1, workers + 1)
        self._cores, self._memory_mb = worker_cores, worker_memory_mb
        self._start_timeout_s = start_timeout_s
        self._java_options = java_options
        self._master: _Daemon | None = None
        self._workers: dict[int, _Daemon] = {}
        self.url = ""
        """The master's, once started: `spark://host:port`."""

    def start(self) -> Self:
        """Start master and workers and wait until all are registered. TimeoutError or RuntimeError with the output of who failed."""
        arguments = [_MASTER, "--host", HOST, "--port", "0", "--webui-port", "0"]
        master = self._master = _Daemon("master", self._directory / "master.log", arguments, self._environment())
        self._wait(master, "Starting Spark master at")
        found = _URL.search(master.output())
        if found is None:
            raise RuntimeError(f"the master did not tell its address:\n{master.output()}")
        self.url = found[1]
        for number in self._numbers:
            self._start_worker(number)
        for number in self._numbers:
            self._wait(self._workers[number], _REGISTERED)
        return self

    def _environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("SPARK_")},
            "SPARK_HOME": str(spark_home()),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": self._java_options,
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": sys.executable,
        }

    def _start_worker(self, number: int) -> None:
        work = self._directory / f"worker-{number}"
        arguments = [_WORKER, "--host", HOST, "--port", "0", "--webui-port", "0", "--work-dir", str(work)]
        arguments += ["--cores", str(self._cores), "--memory", f"{self._memory_mb}m", self.url]
        log_path = self._directory / f"worker-{number}.log"
        self._workers[number] = _Daemon(f"worker {number}", log_path, arguments, self._environment())

    def _wait(self, daemon: _Daemon, text: str) -> None:
        try:
            wait_until(lambda: daemon.has_said(text), f"start of the Spark {daemon.name}", self._start_timeout_s)
        except TimeoutError as problem:
            raise TimeoutError(f"{problem}\n{daemon.output()[-4000:]}") from None

    def start_worker(self, number: int) -> None:
        """Start a worker again, and wait until the master knows it."""
        self._start_worker(number)
        self._wait(self._workers[number], _REGISTERED)

    def kill_worker(self, number: int) -> None:
        """Kill a worker with its executors, without warning."""
        self._workers[number].kill()

    def executor_pids(self) -> list[int]:
        """Return the process ids of the running executors, from Linux's /proc: the JVMs that workers started."""
        pids = []
        for worker in self._workers.values():
            children = Path(f"/proc/{worker.process.pid}/task")
            for task in children.glob("*/children") if worker.process.poll() is None else ():
                pids += [int(pid) for pid in task.read_text().split()]
        return sorted(pids)

    def kill_executor(self, pid: int) -> None:
        """Kill one of `executor_pids` without warning; its worker starts another in its place."""
        os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop all processes."""
        for daemon in [*self._workers.values(), *([self._master] if self._master else [])]:
            daemon.stop()
        self._workers.clear()
        self._master = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()
