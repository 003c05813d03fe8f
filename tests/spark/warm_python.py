"""The Python that Spark forks its workers from, in tests.

Spark starts a `pyspark.daemon` for each module that it asks (data sources are created, planned, read and written by one each), in each
driver and each executor; every one imports pandas, pyarrow, pyspark.sql and the data source again, two seconds where the query itself
takes a tenth. Here all of them are forked from one process that has imported these, for as long as the tests run:

    warm_python.py client FOLDER MODULE [ARGUMENT]...
        is what Spark starts as its daemon, or to plan a stream. It hands its environment and its standard streams to the server, which it
        starts when there is none yet, and ends with what that has forked.
    warm_python.py server ADDRESS OWNER_PID
        imports, then forks a process for each client, in which the module runs as with -m; ends with the process OWNER_PID.

A server has imported from one PYTHONPATH, so each has one of its own. `sessions.warm_python_program` makes the executable that Spark is
given.
"""

# A client must start quickly, so it imports the little that it needs; the server imports the rest.
import os
import socket
import sys

PRELOADED = (
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.types",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.types",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.datasource_internal",
    "pyspark.sql.streaming.datasource",
    "spark_jobs",
    "spark_jobs.source",
    "spark_jobs.batch.records",
    "kafkalite.client",
    "kafkalite.client.consumer.record_columns",
)
"""What pyspark does not have (its releases differ) is left out: it is only slower."""

_STREAMS = (0, 1, 2)
_LIVES_S = 1.0
"""How often a server looks whether its owner lives."""


def client(folder: str, *program: str) -> None:
    """Ends when the program has ended. Spark ends its daemon by closing its standard input, which the daemon has too, and what plans a
    stream by closing their connection."""
    import fcntl
    import hashlib

    key = hashlib.sha256(os.environ.get("PYTHONPATH", "").encode()).hexdigest()[:16]
    address, owner = os.path.join(folder, key), os.path.basename(folder).rpartition("-")[2]
    with open(address + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # clients that come at once start one server
        connection = _connect(address) or _started(address, owner)
    variables = [f"{name}={text}" for name, text in os.environ.items()]
    message = "\0".join([str(len(program)), *program, os.getcwd(), *variables]).encode(errors="surrogateescape")
    connection.sendall(len(message).to_bytes(4, "big"))
    socket.send_fds(connection, [message[:1]], list(_STREAMS))
    connection.sendall(message[1:])
    connection.recv(1)  # nothing comes but the end


def _connect(address: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        return None
    return connection


def _started(address: str, owner: str) -> socket.socket:
    import subprocess

    with open(address + ".log", "ab") as log:
        server = subprocess.Popen(
            [sys.executable, __file__, "server", address, owner],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            close_fds=True,
        )
    assert server.stdout is not None
    server.stdout.read()  # it closes its standard output when it listens
    connection = _connect(address)
    if connection is None:
        with open(address + ".log") as log_file:
            raise RuntimeError(f"the warm Python does not start: {log_file.read()[-2000:]}")
    return connection


def preload() -> None:
    import gc
    import importlib

    for name in PRELOADED:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    gc.freeze()  # the children leave these objects' pages as they are


def server(address: str, owner: int) -> None:
    import signal

    preload()
    listening = socket.socket(socket.AF_UNIX)
    if os.path.exists(address):  # of a server that was killed
        os.remove(address)
    listening.bind(address)
    listening.listen(64)
    listening.settimeout(_LIVES_S)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody collects the daemons
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever started this waits for it
    while os.path.exists(f"/proc/{owner}") and os.path.exists(address):
        try:
            connection, _ = listening.accept()
        except TimeoutError:
            continue
        connection.settimeout(None)
        if os.fork() == 0:
            listening.close()
            become(connection)
        connection.close()


def become(connection: socket.socket) -> None:
    """In the fork: be the process that Spark started."""
    import importlib
    import runpy
    import signal

    size = int.from_bytes(_exactly(connection, 4), "big")
    first, streams, _, _ = socket.recv_fds(connection, 1, len(_STREAMS))
    words, *texts = (first + _exactly(connection, size - 1)).decode(errors="surrogateescape").split("\0")
    program, (folder, *variables) = texts[: int(words)], texts[int(words) :]
    for number, stream in zip(_STREAMS, streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(variable.split("=", 1) for variable in variables)
    os.chdir(folder)
    sys.path[0] = folder  # as with -m; until here it is the folder of this file
    for worker_module in program[1:]:
        importlib.import_module(worker_module)
    sys.argv = program
    runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    os._exit(0)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            os._exit(1)
        found += part
    return found


if __name__ == "__main__":
    if sys.argv[1] == "client":
        client(*sys.argv[2:])
    else:
        server(sys.argv[2], int(sys.argv[3]))
