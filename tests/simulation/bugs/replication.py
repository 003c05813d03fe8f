"""Bugs of replication: what leaders and followers do with epochs, high watermarks and the ISR."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.patching import Bug, Edit

_PARTITION: Final = "kafkalite.broker.replication.partition"
_REPLICAS: Final = "kafkalite.broker.replication.replicas"
_FETCHER: Final = "kafkalite.broker.replication.leader_fetcher"
_FETCH_STATES: Final = "kafkalite.broker.replication.fetch_states"
_FETCHING: Final = "kafkalite.broker.fetch.partition_reader"
_LOG: Final = "kafkalite.storage.log.partition_log"

REPLICATION: Final = (
    Bug(
        "a follower truncates to its high watermark",
        "KIP-101 (KAFKA-1211): its high watermark lags, so it cuts off what is committed; when it leads next, that is lost",
        (
            Edit(
                _FETCHER,
                "        if log.latest_epoch is None:\n            # An idle log",
                "        if log:\n            # An idle log",
            ),
        ),
    ),
    Bug(
        "an answer about an epoch does not say which epoch it is of",
        "KIP-279 (KAFKA-6361): after two elections in a row leader and follower agree on an offset whose records differ",
        (
            Edit(
                "kafkalite.storage.log.leader_epochs",
                "        return table[above - 1][0], table[above][1]",
                "        return epoch, table[above][1]",
            ),
        ),
    ),
    Bug(
        "the leader epoch that a fetcher knows is ignored",
        "KIP-320 (KAFKA-6880): a zombie leader serves followers and counts them",
        (
            Edit(
                _PARTITION,
                "if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:",
                "if current_leader_epoch < -1:",
            ),
        ),
    ),
    Bug(
        "a follower does not cut what its leader does not have",
        "before KIP-101: logs stay different for ever",
        (
            Edit(
                _FETCHER,
                "self._truncate(state, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)",
                "state.failures = 0",
            ),
            Edit(
                _FETCHING,
                "        if item.last_fetched_epoch >= 0 and self._diverges(data, partition, item):\n"
                "            return\n",
                "",
            ),
        ),
    ),
    Bug(
        "a leader does not note where its epoch begins",
        "KAFKA-7415: an epoch without records is unknown to the next leader",
        (
            Edit(
                _LOG,
                "        if self.epochs.assign(epoch, self.log_end_offset):\n"
                "            self.epoch_file.update(self.epochs, self.log_end_offset)",
                "        self.epoch_file.update(self.epochs, self.log_end_offset)",
            ),
        ),
    ),
    Bug(
        "the ISR expands before the follower has what is committed",
        "a member of the ISR lacks committed records, and is elected",
        (
            Edit(
                _PARTITION,
                "or follower.log_end_offset < max(self.log.high_watermark, self.leader_epoch_start_offset)",
                "or follower.log_end_offset < 0",
            ),
        ),
    ),
    Bug(
        "the ISR expands by a high watermark that lags",
        "KAFKA-7128: a new leader's high watermark is old, so a follower joins that lacks committed records",
        (
            Edit(
                _PARTITION,
                "or follower.log_end_offset < max(self.log.high_watermark, self.leader_epoch_start_offset)",
                "or follower.log_end_offset < self.log.high_watermark",
            ),
        ),
    ),
    Bug(
        "the high watermark does not wait for a member that is about to join the ISR",
        "before KIP-497 (KAFKA-9672): the controller knows the larger ISR already, and elects the newcomer",
        (
            Edit(
                _PARTITION,
                "if self.pending_change is None or len(self.pending_change.isr) < len(self.isr):",
                "if self.isr:",
            ),
            Edit(
                _PARTITION,
                "            counts = follower.broker_id in maximal or self._is_joining(follower, now_ms)\n",
                "            counts = follower.broker_id in maximal\n",
            ),
        ),
    ),
    Bug(
        "a shrink of the ISR counts before it is written",
        "before KIP-497: the high watermark passes a member that the controller may still elect",
        (
            Edit(
                _PARTITION,
                "if self.pending_change is None or len(self.pending_change.isr) < len(self.isr):",
                "if self.pending_change is None:",
            ),
        ),
    ),
    Bug(
        "a change of the ISR is taken in another epoch than it was asked for",
        "KAFKA-13091: an answer that comes late makes an old ISR the present one",
        (
            Edit(
                _PARTITION,
                "            self.pending_change is not change\n            or leader_epoch != self.leader_epoch\n"
                "            or partition_epoch < self.partition_epoch\n",
                "            leader_epoch < 0\n",
            ),
        ),
    ),
    Bug(
        "an ISR that was written by a session that ended counts as refused",
        "here: who joined is elected, while the former leader acknowledges without it what it will cut off",
        (
            Edit(
                "kafkalite.broker.replication.isr_changes",
                "                failures += 1\n                level = ",
                "                partition.isr_refused(change)\n                level = ",
            ),
        ),
    ),
    Bug(
        "a replica that hosts nothing yet proves who leads",
        "here: its NOT_LEADER_OR_FOLLOWER is taken for that of a follower, so a deposed coordinator tells offsets of before",
        (
            Edit(
                "kafkalite.broker.coordination.replica_questions",
                "codes.get(each.topic_partition) == confirmation",
                "codes.get(each.topic_partition, [])[1:] == confirmation[1:]",
            ),
        ),
    ),
    Bug(
        "a session that peers end is doubted only when its owner has noticed",
        "here: the successor leads before the former coordinator hears of anything, which tells offsets of before",
        (
            Edit(
                "kafkalite.broker.coordination.leadership_proof",
                "        return self._ends_early or self._doubt.holds()\n",
                "        return self._doubt.holds()\n",
            ),
        ),
    ),
    Bug(
        "acks=all is acknowledged before replication",
        "the answer to a produce request waits for nobody",
        (
            Edit(
                "kafkalite.broker.handlers.produce",
                "if partition.high_watermark < required or len(partition.maximal_isr) < partition.effective_min_isr:",
                "if partition.high_watermark > required:",
            ),
            Edit(
                "kafkalite.broker.produce.fast_path",
                "if template.acks == 1 or offset < committed:",
                "if template.acks:",
            ),
        ),
    ),
    Bug(
        "acks=all waits for all but the last record",
        "off by one: the high watermark is the offset behind the last committed record",
        (
            Edit(
                _PARTITION,
                "while waits and next(iter(waits)).required_offset <= high_watermark:",
                "while waits and next(iter(waits)).required_offset <= high_watermark + 1:",
            ),
        ),
    ),
    Bug(
        "what waits for replication succeeds when the leader changes",
        "KAFKA-3410: the former leader answers NONE for records that the next one does not have",
        (
            Edit(
                _PARTITION,
                "        self._fail_ack_waits(ErrorCode.NOT_LEADER_OR_FOLLOWER)\n",
                "        self._fail_ack_waits(ErrorCode.NONE)\n",
            ),
        ),
    ),
    Bug(
        "the high watermark is lost at a restart",
        "KAFKA-3968: consumers of the leader find nothing, and what they had read is read as not committed",
        (
            Edit(
                "kafkalite.storage.directories.log_opening",
                "self.high_watermarks.get(waiting.topic_partition, 0)",
                "0",
            ),
        ),
    ),
    Bug(
        "consumers read behind the high watermark",
        "they see records that the next leader does not have",
        (
            Edit(
                _FETCHING,
                "        else:\n            upper_bound = log.high_watermark\n",
                "        else:\n            upper_bound = log.log_end_offset\n",
            ),
        ),
    ),
    Bug(
        "a new leader goes by what followers had fetched from it before",
        "KAFKA-1758: offsets of an earlier leadership raise the high watermark above what followers have now",
        (
            Edit(
                _PARTITION,
                "        kept = {} if newer_epoch else self.followers\n",
                "        kept = self.followers\n",
            ),
            Edit(
                _PARTITION,
                "        self.pending_change = None\n        self.followers = NO_FOLLOWERS\n        if newer_epoch:\n",
                "        self.pending_change = None\n        if newer_epoch:\n",
            ),
        ),
    ),
    Bug(
        "a broker that does not lead takes records",
        "a zombie leader appends what its successor does not know",
        (
            Edit("kafkalite.broker.handlers.produce", "        partition.require_leader()\n", ""),
            Edit(
                _PARTITION,
                "        self._require_replicas(acks)\n"
                "        end_before = self.log.log_end_offset\n"
                "        result = self.log.append_as_leader(\n"
                "            records,",
                "        end_before = self.log.log_end_offset\n"
                "        result = self.log.append_as_leader(\n"
                "            records,",
            ),
        ),
    ),
    Bug(
        "a fetched answer is taken after the partition changed hands",
        "here (7bdce58): a log that leads already is cut or appended to by its former fetcher",
        (
            Edit(
                _FETCH_STATES,
                "self.followed.get(partition.topic_partition) is state and state.leader_epoch == partition.leader_epoch",
                "partition is not None",
            ),
        ),
    ),
    Bug(
        "a stale LeaderAndIsr is obeyed",
        "KAFKA-1647 and its like: an older leader epoch makes a follower the leader again",
        (
            Edit(
                _REPLICAS,
                "        return state.leader_epoch <= partition.leader_epoch and topic_id == partition.topic_id\n",
                "        return state.leader_epoch == partition.leader_epoch and topic_id == partition.topic_id\n",
            ),
            Edit(_REPLICAS, "            if state.leader_epoch < partition.leader_epoch or (\n", "            if (\n"),
            Edit(
                _PARTITION,
                "        newer_epoch = state.leader_epoch > self.leader_epoch\n"
                "        if not newer_epoch and state.partition_epoch < self.partition_epoch:\n"
                "            return False\n"
                "        self._adopt(state)\n"
                "        _set_isr(self, state.isr, is_epoch_new=newer_epoch)\n",
                "        newer_epoch = state.leader_epoch != self.leader_epoch\n"
                "        self._adopt(state)\n"
                "        _set_isr(self, state.isr, is_epoch_new=newer_epoch)\n",
            ),
        ),
    ),
    Bug(
        "a follower believes its leader's high watermark before it has the records",
        "what it does not have is told to be committed",
        (
            Edit(
                _PARTITION,
                "        reached = min(leader_high_watermark, self.log.log_end_offset)\n",
                "        reached = self.log.log_end_offset\n",
            ),
        ),
    ),
    Bug(
        "an epoch without records is kept when its leader is deposed",
        "here: the two logs never agree where they part, and the follower never joins the ISR again",
        (
            Edit(
                _LOG,
                "            if self.epochs.truncate_from_end(offset):\n"
                "                self.epoch_file.update(self.epochs, self.log_end_offset)\n"
                "            return\n"
                "        if offset < self.segments",
                "            return\n        if offset < self.segments",
            ),
        ),
    ),
    Bug(
        "a follower that caught up while an ISR change was in flight is forgotten",
        "here (b1de2cc): in its session it fetches no idle partition again, so it never joins",
        (
            Edit(
                _PARTITION,
                "    if not is_epoch_new and not set(maximal) <= set(isr):\n",
                "    if False:\n",
            ),
        ),
    ),
    Bug(
        "a partition that begins to follow is not fetched by a session that is under way",
        "here (3a35fbc): a follower that asks too early is never told of records",
        (
            Edit(
                _FETCH_STATES,
                "            self.fetch_next(topic_partition)\n        if len(self._names)",
                "            pass\n        if len(self._names)",
            ),
        ),
    ),
)
