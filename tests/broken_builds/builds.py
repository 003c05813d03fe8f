"""The bugs, each a text of one file that becomes another one. tests/unit/test_broken_builds.py holds them to the present source."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]


class BrokenBuild(NamedTuple):
    """In `file`, `right` stands once; `wrong` takes its place."""

    name: str
    file: str
    right: str
    wrong: str


BUILDS: Final = (
    BrokenBuild(
        "acks=all is acknowledged before replication",
        "kafkalite/broker/handlers/produce.py",
        "if partition.high_watermark < required or len(partition.maximal_isr) < partition.effective_min_isr:",
        "if partition.high_watermark > required:",
    ),
    BrokenBuild(
        "the leader epoch that a caller knows is ignored",
        "kafkalite/broker/replication/partition.py",
        "if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:",
        "if current_leader_epoch < -1:",
    ),
    BrokenBuild(
        "a follower does not truncate what its leader does not have",
        "kafkalite/broker/replication/leader_fetcher.py",
        "self._truncate(state, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)",
        "state.failures = 0",
    ),
    BrokenBuild(
        "the ISR expands before the follower has what is committed",
        "kafkalite/broker/replication/partition.py",
        "or follower.log_end_offset < max(self.log.high_watermark, self.leader_epoch_start_offset)",
        "or follower.log_end_offset < 0",
    ),
    BrokenBuild(
        "the high watermark is forgotten on restart",
        "kafkalite/storage/directories/log_opening.py",
        "self.high_watermarks.get(waiting.topic_partition, 0)",
        "0",
    ),
    BrokenBuild(
        "offsets are committed before their records are",
        "kafkalite/coordinators/runtime.py",
        "shard.log.when_committed(entry.end_offset, lambda code: self._complete_append(shard, entry, code))",
        "self._complete_append(shard, entry, ErrorCode.NONE)",
    ),
    BrokenBuild(
        "compaction loses a tombstone before its delete horizon",
        "kafkalite/storage/cleaning/compaction.py",
        "return horizon is None or now_ms < horizon",
        "return horizon is not None and now_ms < horizon",
    ),
    BrokenBuild(
        "the time index is off by one entry",
        "kafkalite/storage/segments/time_index.py",
        "return self._read(low - 1) if low else TimeEntry(NO_TIMESTAMP, self.base_offset)",
        "return self._read(min(low, self.count - 1)) if low else TimeEntry(NO_TIMESTAMP, self.base_offset)",
    ),
    BrokenBuild(
        "a setting that nobody reads",
        "kafkalite/config/broker_keys.py",
        "    log_cleaner_threads: int = ",
        '    log_cleaner_rooms: int = _int(1, "Rooms that the cleaner cleans.")\n    log_cleaner_threads: int = ',
    ),
    BrokenBuild(
        "a handler forgets the shape of its failure",
        "kafkalite/broker/handlers/list_offsets.py",
        "failure=FailedItems(), ",
        "failure=None, ",
    ),
    BrokenBuild(
        "acks=all is taken with fewer replicas in sync than min.insync.replicas",
        "kafkalite/broker/replication/partition.py",
        "if acks == -1 and len(self.isr) < self.effective_min_isr:",
        "if acks == -1 and not self.isr:",
    ),
    BrokenBuild(
        "a follower that never had the leader's epoch keeps what it appended in a later one",
        "kafkalite/broker/replication/follower_truncation.py",
        "        return min(own_end, log_end_offset)\n",
        "        return min(leader_end_offset, log_end_offset)\n",
    ),
    BrokenBuild(
        "a client's quota counts one sample too many",
        "kafkalite/broker/settings/rates.py",
        "missing = samples.count - 1 - int(age_ms / samples.length_ms)",
        "missing = samples.count - int(age_ms / samples.length_ms)",
    ),
    BrokenBuild(
        "a restarted replica proves that its coordinator still leads",
        "kafkalite/broker/coordination/replica_questions.py",
        "codes.get(each.topic_partition) == confirmation",
        "codes.get(each.topic_partition, [])[-1:] == confirmation[-1:]",
    ),
    BrokenBuild(
        "the fetch session of a delayed fetch is evicted",
        "kafkalite/broker/fetch/fetch_sessions.py",
        "victims = [s for s in self.sessions.values() if s.on_ready is None]",
        "victims = list(self.sessions.values())",
    ),
    BrokenBuild(
        "an ISR that ZooKeeper has is taken for refused when the answer to its write was lost",
        "kafkalite/broker/replication/isr_changes.py",
        "return stat.version if data == wanted else None",
        "return stat.version if data != wanted else None",
    ),
    BrokenBuild(
        "a partition that metadata does not name yet gets no transaction marker",
        "kafkalite/broker/coordination/marker_sender.py",
        "if each.partition < counts[each.topic]:",
        "if each.partition < 0:",
    ),
    BrokenBuild(
        "recovery keeps the segments behind one that it cut",
        "kafkalite/storage/log/recovery.py",
        "if cut or is_short:",
        "if is_short:",
    ),
    BrokenBuild(
        "a request starts before those that wait on its connection",
        "kafkalite/broker/connections/request_order.py",
        "if not self.held and not self.unserved and (slot",
        "if not self.unserved and (slot",
    ),
    BrokenBuild(
        "the fast path appends a batch again that its producer repeats",
        "kafkalite/broker/produce/partition_batches.py",
        "or (header.producer_id >= 0 and not self._is_next(header))",
        "or header.producer_id < -1",
    ),
)
