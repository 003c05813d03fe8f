"""A broker as a process: event loop, logging, signals, exit code.

Prints `[KafkaServer id=N] started` on stdout when the broker serves and knows the cluster; testcontainers and scripts wait for that line.
While it stops it prints `[KafkaServer id=N] stopping: 212 leaders to hand over`, again in each second in which that changed, so that
whoever stops it can wait for as long as there is progress.
SIGTERM and SIGINT are a clean stop, which takes `kafkalite.shutdown.timeout.ms` at most, also where the broker is still starting or its
event loop hangs; SIGUSR1 writes what all tasks are doing to the log. Exit code 0 after a clean stop, 1 when the broker could not start, had
to give up, or left something of its stop behind; the last line on stderr says why.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalite import event_loop
from kafkalite.broker.app import Broker
from kafkalite.broker.bounded_stop import UncleanStop, Watchdog, describe_tasks
from kafkalite.broker.garbage_collections import GarbageCollections
from kafkalite.broker.log_output import WINDOW_S, BrokerLog
from kafkalite.broker.stages import Stages, since_process_began
from kafkalite.clock import SystemClock
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.zookeeper_keys import jute_maxbuffer
from kafkalite.lifecycle import end_tasks
from kafkalite.protocol.record_batches.record_code import IS_COMPILED
from kafkalite.storage.cleaning.cleaning_process import in_process
from kafkalite.storage.disk import OsDisk
from kafkalite.zookeeper_connection import store_security
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.native.native_store import NativeStore
from zk.request_errors import MAX_REQUEST_BYTES
from zk.session import Session

if TYPE_CHECKING:
    from kafkalite.broker.requests.fault_control import FaultControl
    from zk.security.store_security import StoreSecurity

logger = logging.getLogger("kafkalite.broker.process")

_PROGRESS_S = 1.0
_MARGIN_S = 5.0
"""Time beyond the bound of a stop after which a watchdog ends the process; also the time in which the loop must close."""
_UNUSED_S = 10.0
"""Memory for reads that nobody used for so long is given back."""


def run(config: BrokerConfig, log_level: str = "INFO", timings: bool = False) -> int:
    """Run a broker until it is asked to stop, and return the exit code. `timings` prints the time of each stage to stderr.

    Raises ConfigError for faults in the environment that the settings do not allow.
    """
    stages = Stages(since=since_process_began())
    stages.end("interpreter, imports and settings")
    fault_control = _fault_control(config)
    security = store_security(config)
    log = BrokerLog(sys.stderr)
    logging.basicConfig(level=log_level, handlers=[log])
    tell = _print_stages if timings else None
    watchdog = Watchdog()
    if not event_loop.has_uvloop():
        logger.warning(
            "uvloop is not installed, and asyncio's loop serves fewer requests a second: pip install 'kafkalite[server]'"
        )
    status = event_loop.run(_serve(config, log, fault_control, security, stages, tell, watchdog))
    watchdog.cancel()
    stages.end("event loop closed")
    if tell is not None:
        tell(stages)
    return status


async def _serve(
    config: BrokerConfig,
    log: BrokerLog,
    fault_control: FaultControl | None,
    security: StoreSecurity,
    stages: Stages,
    tell: Callable[[Stages], None] | None,
    watchdog: Watchdog,
) -> int:
    loop = asyncio.get_running_loop()
    _log_left_out(loop, log)
    for warning in config.warnings():
        logger.warning("%s", warning)
    if not IS_COMPILED:
        logger.info("records are read and written by Python, not by compiled code; kafkalite doctor says what to do")
    stopping = asyncio.Event()
    reasons: list[str] = []

    def fatal(reason: str) -> None:
        reasons.append(reason)
        stop()

    def stop() -> None:
        if not stopping.is_set():
            _watch(watchdog, config, broker)
        stopping.set()

    _handle_signals(loop, stop)
    store = _make_store(config, security)
    session, rng = Session(store), random.Random()
    disk = OsDisk()
    broker = Broker(config, session, disk, SystemClock(), rng, fatal, in_process, fault_control, stages)
    loop.set_exception_handler(broker.errors.handle)
    collections = _schedule_collections(broker)
    collections.start()  # before logs are opened, whose objects are a million: Python would look at them again and again
    timeout_ms = config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms
    starting = loop.create_task(_start(broker, store, timeout_ms / 1000, stages))
    stop_asked = loop.create_task(stopping.wait())
    await asyncio.wait({starting, stop_asked}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        await end_tasks([starting])
    if starting.cancelled():
        logger.info("stopped before it had started")
    elif (problem := starting.exception()) is not None:
        logger.debug("the start failed", exc_info=problem)
        reasons.append(str(problem) or repr(problem))
    else:
        _release_unused(loop, disk)
        reasons += await _run_until(stopping, broker, stages, tell)
    collections.stop()
    stop_asked.cancel()
    if reasons or starting.cancelled():
        await broker.own_session.close()
    if reasons:
        print(f"kafkalite broker: {reasons[0]}", file=sys.stderr, flush=True)
    status = 1 if reasons else 0
    watchdog.limit(
        _MARGIN_S, lambda: "kafkalite broker: all is closed but its event loop, which is left behind", status
    )
    return status


def _make_store(config: BrokerConfig, security: StoreSecurity) -> KazooStore | NativeStore:
    make = NativeStore if config.kafkalite_zookeeper_client == "native" else KazooStore
    return make(
        config.zookeeper_connect,
        config.zookeeper_session_timeout_ms / 1000,
        config.zookeeper_max_in_flight_requests,
        security,
        jute_maxbuffer(config.kafkalite_zookeeper_jute_maxbuffer) or MAX_REQUEST_BYTES,
    )


async def _run_until(
    stopping: asyncio.Event, broker: Broker, stages: Stages, tell: Callable[[Stages], None] | None
) -> list[str]:
    """Run a started broker until it is to stop, and stop it; return the reasons why the stop was not clean."""
    # What exists now lives as long as the broker: keep it out of the garbage collector's rounds. Old objects are not looked at before:
    # those of a hundred thousand logs are no garbage, and take half a second.
    gc.collect(0)
    gc.freeze()
    stages.end("garbage collector settled")
    if tell is not None:
        tell(stages)
    print(f"[KafkaServer id={broker.broker_id}] started", flush=True)
    await stopping.wait()
    return await _stop(broker)


async def _stop(broker: Broker) -> list[str]:
    """Stop a started broker, and return the reasons why the stop was not clean."""
    logger.info("stopping")
    telling = asyncio.get_running_loop().create_task(_print_progress(broker))
    reasons: list[str] = []
    try:
        await broker.stop()
    except UncleanStop as problem:
        reasons.append(f"it could not stop cleanly: {problem}")
    except Exception as problem:
        logger.exception("the broker could not stop cleanly")
        reasons.append(f"it could not stop cleanly: {problem!r}")
    telling.cancel()
    logger.info("stopped")
    return reasons


def _watch(watchdog: Watchdog, config: BrokerConfig, broker: Broker) -> None:
    timeout_s = config.kafkalite_shutdown_timeout_ms / 1000
    watchdog.limit(
        timeout_s + _MARGIN_S,
        lambda: (
            f"kafkalite broker: it did not stop within {timeout_s:g} s ({broker.left_to_stop}); the next start recovers its logs"
        ),
    )


def _print_stages(stages: Stages) -> None:
    print(stages.table(), file=sys.stderr, flush=True)


def _fault_control(config: BrokerConfig) -> FaultControl | None:
    """Return the control of faults on purpose; None unless the environment names faults."""
    if not any(name.startswith("KAFKALITE_FA") for name in os.environ):
        return None
    from kafkalite.broker.requests.fault_control import FaultControl, is_wanted

    return FaultControl(os.environ) if is_wanted(config, os.environ) else None


async def _start(broker: Broker, store: KazooStore | NativeStore, timeout_s: float, stages: Stages) -> None:
    try:
        await store.start(timeout_s)
    except TimeoutError as problem:
        raise TimeoutError(
            f"{problem}; does it run there? zookeeper.connect says where, and `kafkalite doctor --only zookeeper` looks"
        ) from problem
    stages.end("session with ZooKeeper")
    await broker.start()


async def _print_progress(broker: Broker) -> None:
    told = ""
    while True:
        if (left := broker.left_to_stop) != told:
            told = left
            print(f"[KafkaServer id={broker.broker_id}] stopping: {left}", flush=True)
        await asyncio.sleep(_PROGRESS_S)


def _log_left_out(loop: asyncio.AbstractEventLoop, log: BrokerLog) -> None:
    """Log how many lines each window left out, also when no line follows."""
    log.write_left_out(time.time())
    loop.call_later(WINDOW_S, _log_left_out, loop, log)


def _release_unused(loop: asyncio.AbstractEventLoop, disk: OsDisk) -> None:
    disk.release_unused()
    loop.call_later(_UNUSED_S, _release_unused, loop, disk)


def _schedule_collections(broker: Broker) -> GarbageCollections:
    def is_busy() -> bool:
        return broker.serving is not None and broker.serving.dispatcher.is_busy

    def count_portions() -> int:
        return 0 if broker.serving is None else broker.serving.dispatcher.portions.turns

    return GarbageCollections(is_busy, count_portions)


def _handle_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGUSR1, _dump_tasks)


def _dump_tasks() -> None:
    for line in describe_tasks():
        logger.warning("task %s", line)
