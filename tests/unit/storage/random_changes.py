"""Changes of logs, each with its parameters by chance."""

from __future__ import annotations

from tests.unit.storage.logs import append, batch, produced
from tests.unit.storage.stores import A0, A1, B0, TOPIC_ID

NAMES = (A0, A1, B0)


def grow(store, log, random):
    append(
        log,
        produced(random.getrandbits(40)) if random.randint(0, 1) else batch(),
        epoch=7,
    )


def cut(store, log, random):
    log.truncate_to(random.randint(log.log_start_offset, log.log_end_offset))


def roll(store, log, random):
    log.roll(store.clock.now_ms())


def flush(store, log, random):
    log.flush()


def begin_epoch(store, log, random):
    log.assign_epoch((log.latest_epoch or 7) + 1)


def delete_records(store, log, random):
    log.delete_records(random.randint(log.log_start_offset, log.log_end_offset))
    log.config = log.config.__class__(retention_ms=1)
    log.set_high_watermark(log.log_end_offset)
    log.delete_old_segments(store.clock.now_ms() + 10_000_000_000)


def make_again(store, log, random):
    store.delete(log.topic_partition)
    store.checkpoint_deletions()
    store.create(log.topic_partition, TOPIC_ID)


def checkpoint(store, log, random):
    store.checkpoint_recovery_points()
    store.checkpoint_log_start_offsets()
    store.checkpoint_high_watermarks()


CHANGES = (grow, grow, grow, cut, roll, flush, begin_epoch, delete_records, make_again, checkpoint)
