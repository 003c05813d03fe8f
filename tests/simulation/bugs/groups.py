"""Bugs of coordinators, and of the clients: groups, offsets, what producers send again and consumers read on."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.patching import Bug, Edit

_RUNTIME: Final = "kafkalite.coordinators.runtime"
_COMMITS: Final = "kafkalite.coordinators.group.commits"
_SENDER: Final = "kafkalite.client.producer.sender"
_OFFSETS: Final = "kafkalite.client.group.offsets"

GROUPS: Final = (
    Bug(
        "offsets are acknowledged before they are replicated",
        "a coordinator that dies takes acknowledged commits with it",
        (
            Edit(
                _RUNTIME,
                "shard.log.when_committed(entry.end_offset, lambda code: self._complete_append(shard, entry, code))",
                "self._complete_append(shard, entry, ErrorCode.NONE)",
            ),
        ),
    ),
    Bug(
        "a coordinator shows offsets that are not committed yet",
        "KAFKA-4686 and its like: when coordinators change twice in a row, offsets go back",
        (Edit(_RUNTIME, "                    await self._wait_committed(shard)\n", ""),),
    ),
    Bug(
        "a coordinator goes on when it leads no more",
        "KAFKA-5600: it tells offsets that its successor has replaced",
        (
            Edit(
                _RUNTIME,
                "        shard = self.shards.pop(partition, None)\n"
                "        if shard is not None:\n"
                "            self._unload(shard)\n"
                "\n"
                "    def close",
                "        shard = self.shards.get(partition)\n"
                "        if shard is None:\n"
                "            return\n"
                "\n"
                "    def close",
            ),
        ),
    ),
    Bug(
        "a new coordinator does not read the log",
        "groups and offsets are forgotten with their coordinator",
        (
            Edit(
                _RUNTIME,
                "        offset, count, paused_at = shard.replayed_to, 0, 0\n",
                "        offset, count, paused_at = log.end_offset, 0, 0\n",
            ),
        ),
    ),
    Bug(
        "a coordinator takes commits of older generations",
        "KAFKA-3062: a member that was thrown out overwrites its successor's offset",
        (
            Edit(
                _COMMITS,
                "    code = group.check_member(request.member_id, request.instance_id)\n",
                "    code = ErrorCode.NONE\n",
            ),
            Edit(
                _COMMITS,
                "    if request.generation != group.generation:\n",
                "    if request.generation > group.generation:\n",
            ),
        ),
    ),
    Bug(
        "a coordinator takes commits while members do not know their share",
        "KAFKA-8653 and its like: the offset of what somebody else has by now",
        (
            Edit(
                _COMMITS,
                "    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.COMPLETING else ErrorCode.NONE\n",
                "    return ErrorCode.NONE\n",
            ),
            Edit(
                _COMMITS,
                "    if request.generation != group.generation:\n",
                "    if request.generation > group.generation:\n",
            ),
        ),
    ),
    Bug(
        "members that are silent stay in their group",
        "what they had is read by nobody",
        (
            Edit(
                "kafkalite.coordinators.group.rebalance",
                '        remove_member(group, member, decision, "its session timed out")\n',
                "        restart_session(group, member, decision)\n",
            ),
        ),
    ),
    Bug(
        "a generation has the number of the one before",
        "KAFKA-12495 and its like: members of two generations cannot be told apart",
        (
            Edit(
                "kafkalite.coordinators.group.group", "        self.generation += 1\n", "        self.generation = 1\n"
            ),
        ),
    ),
    Bug(
        "a commit is answered when another one of its group is committed",
        "appends that wait are settled in the wrong order",
        (
            Edit(
                _RUNTIME,
                '        ensure(shard.in_flight and shard.in_flight[0] is entry, "appends were committed out of order")\n',
                "",
            ),
            Edit(
                _RUNTIME,
                "        shard.in_flight.append(entry)\n        if self.rules.required_acks != -1:\n",
                "        shard.in_flight.append(entry)\n"
                "        if len(shard.in_flight) > 1:\n"
                "            entry.end_offset = shard.in_flight[0].end_offset\n"
                "        if self.rules.required_acks != -1:\n",
            ),
        ),
    ),
    Bug(
        "a producer numbers a batch again when it sends it again",
        "KAFKA-5494: the broker cannot know it as a repeated one",
        (
            Edit(
                _SENDER,
                "if self._sequences is not None and batch.base_sequence < 0:",
                "if self._sequences is not None:",
            ),
        ),
    ),
    Bug(
        "a producer takes no answer for an acknowledgement",
        "a request that timed out may never have arrived",
        (
            Edit(
                _SENDER,
                "            self._retry_all(_still_in_flight(sent), problem)\n        except ConnectionError as problem:\n",
                "            for batch in _still_in_flight(sent):\n"
                "                self._finish_delivered(batch, -1, -1)\n"
                "        except ConnectionError as problem:\n",
            ),
        ),
    ),
    Bug(
        "a producer takes NOT_LEADER for an acknowledgement",
        "an error that is not looked at",
        (
            Edit(
                _SENDER,
                "        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):\n",
                "        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorCode.NOT_LEADER_OR_FOLLOWER):\n",
            ),
        ),
    ),
    Bug(
        "a producer begins a new sequence for whatever went wrong",
        "KIP-360: a batch that may be in the log is sent again under another producer id",
        (
            Edit(
                _SENDER,
                "        now_ms = self._now_ms()\n        if batch.attempts > self._options.retries:\n",
                "        now_ms = self._now_ms()\n"
                "        if self._sequences is not None:\n"
                "            self._sequences.reset(batch.topic_partition)\n"
                "            self._restarting.add(batch.topic_partition)\n"
                "        for each in self._accumulator.waiting(batch.topic_partition):\n"
                "            each.base_sequence = -1\n"
                "        batch.base_sequence, batch.encoded = -1, None\n"
                "        if batch.attempts > self._options.retries:\n",
            ),
        ),
    ),
    Bug(
        "a member commits what it had read before the group rebalanced",
        "here: to the coordinator it is a member of the present generation, and the offset goes back",
        (
            Edit(
                _OFFSETS,
                "                if member is not None and not member.partitions.still_in(tenures, offsets):\n",
                "                if member is None and not offsets:\n",
            ),
        ),
    ),
    Bug(
        "an answer to a fetch is taken after the position moved",
        "KAFKA-3949 and its like: a consumer that was given a partition again skips or repeats records",
        (
            Edit(
                "kafkalite.client.consumer.fetch_buffer",
                "        if generation != state.generation or self.states.get(state.topic_partition) is not state:\n",
                "        if generation < 0:\n",
            ),
        ),
    ),
)
