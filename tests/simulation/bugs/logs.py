"""Bugs of logs and disks: sequence numbers, recovery, compaction."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.patching import Bug, Edit

_LOG: Final = "kafkalite.storage.log.partition_log"
_PRODUCERS: Final = "kafkalite.storage.producers.producer_state"
_RECOVERY: Final = "kafkalite.storage.log.recovery"

LOGS: Final = (
    Bug(
        "a repeated batch is not recognized",
        "KAFKA-5494: a producer whose answer was lost sends again, and the records are there twice",
        (
            Edit(_PRODUCERS, "            for batch in producer.batches:\n", "            for batch in ():\n"),
            Edit(_PRODUCERS, "            if first != expected:\n", "            if first < 0:\n"),
        ),
    ),
    Bug(
        "sequence numbers may have gaps",
        "KAFKA-6817: batches that were sent together are stored out of order, and one of them is lost",
        (Edit(_PRODUCERS, "            if first != expected:\n", "            if first < 0:\n"),),
    ),
    Bug(
        "followers do not know their leader's producers",
        "KAFKA-6119: after a failover the new leader takes repeated batches for new ones",
        (
            Edit(
                _LOG,
                "            self._append(memoryview(records)[: headers[-1].end], headers, now_ms)\n",
                "            self._append(memoryview(records)[: headers[-1].end], headers, now_ms)\n"
                "            self.producers = ProducerState(end_offset=self.log_end_offset)\n",
            ),
        ),
    ),
    Bug(
        "producers are not truncated with their records",
        "KAFKA-5415: the next leader calls a batch repeated that it has cut off, so it is acknowledged and lost",
        (
            Edit(
                _LOG,
                "        self.snapshots.remove_above(end)\n        self._restore_producers(end)\n",
                "        self.snapshots.remove_above(end)\n",
            ),
        ),
    ),
    Bug(
        "producers are forgotten at a restart",
        "KAFKA-5622: repeated batches are new ones for a broker that was restarted",
        (
            Edit(
                _RECOVERY,
                "        state.expire(options.now_ms, options.producer_expiration_ms)\n        return state\n",
                "        return ProducerState(end_offset=log_end_offset)\n",
            ),
        ),
    ),
    Bug(
        "recovery does not check the CRC of batches",
        "a batch of which the end was not on the disk is served",
        (Edit(_RECOVERY, "        if crc != header.crc:\n            return\n", ""),),
    ),
    Bug(
        "a crash is taken for a clean stop",
        "KAFKA-10471: what power failure left in the log is trusted",
        (
            Edit(
                _RECOVERY,
                "            self._recover_from(recovery_point)\n",
                "            pass\n",
            ),
            Edit(
                _RECOVERY,
                '            logger.warning("%s: %s does not end with a whole batch", self.topic_partition, active)\n'
                "            self._rebuild(active)\n",
                "            return last.next_offset if last is not None else active.base_offset\n",
            ),
        ),
    ),
    Bug(
        "a flush brings nothing to the disk",
        "the recovery point moves on, and after a power failure nobody looks at what was lost before it",
        (Edit("kafkalite.storage.log.flush_work", "                self.disk.sync(path)\n", "                pass\n"),),
    ),
    Bug(
        "leader epochs are not cut with the log",
        "KAFKA-4215 and its like: entries behind the end tell followers of records that there are not",
        (
            Edit(
                "kafkalite.storage.log.leader_epochs",
                "        kept = bisect_left(self.table, end_offset, key=_start_of)\n"
                "        if kept == len(self.table):\n"
                "            return False\n",
                "        kept = bisect_left(self.table, end_offset, key=_start_of)\n"
                "        if kept <= len(self.table):\n"
                "            return False\n",
            ),
        ),
    ),
    Bug(
        "a follower appends what does not begin at its end",
        "KAFKA-2477: an answer that comes late leaves a hole, or records twice",
        (
            Edit(
                "kafkalite.broker.replication.fetch_states",
                "            if not self.session.knows(topic_partition, topic_id):\n",
                "            if topic_partition not in self.followed:\n",
            ),
            Edit(
                "kafkalite.storage.log.append_checks",
                "        if header.base_offset < expected or header.last_offset_delta < 0:\n"
                "            raise KafkaError(\n"
                '                ErrorCode.OFFSET_OUT_OF_RANGE, f"a batch',
                "        if header.last_offset_delta < 0:\n"
                "            raise KafkaError(\n"
                '                ErrorCode.OFFSET_OUT_OF_RANGE, f"a batch',
            ),
        ),
    ),
    Bug(
        "the cleaner drops a tombstone early",
        "KAFKA-8522: a follower or a consumer that comes later never hears of the deletion",
        (
            Edit(
                "kafkalite.storage.cleaning.compaction",
                "    return horizon is None or now_ms < horizon\n",
                "    return horizon is not None and now_ms < horizon\n",
            ),
        ),
    ),
    Bug(
        "the cleaner keeps the first value of a key",
        "compaction loses the latest value",
        (
            Edit(
                "kafkalite.storage.cleaning.key_map",
                "                table[place + 2] = offset + 1\n",
                "                table[place + 2] = min(table[place + 2], offset + 1)\n",
            ),
        ),
    ),
    Bug(
        "a leader gives the offset of its last record to the next one",
        "off by one: an offset holds two records",
        (
            Edit(
                _LOG,
                "placed = assign_offsets(records, positions, self.log_end_offset, leader_epoch)",
                "placed = assign_offsets(records, positions, max(self.log_end_offset - 1, 0), leader_epoch)",
            ),
            Edit(_LOG, "headers, first_offset, leader_epoch)", "headers, max(first_offset - 1, 0), leader_epoch)"),
        ),
    ),
    Bug(
        "a truncation is not brought to the medium",
        "power fails, and records that were never committed are back below a high watermark that tells of those in their place",
        (
            Edit(
                "kafkalite.storage.log.flush_work",
                "        if limit < end_before and (",
                "        if limit > end_before and (",
            ),
        ),
    ),
)
