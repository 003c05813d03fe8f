"""The rows of the battery: what each does to a cluster, and the tests that do it.

Tests of every day stand in tests/system and elsewhere; those of tests/system/battery take longer, and `python -m tests.system` runs them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_FAILURES: Final = "tests/system/test_broker_failures.py::"
_ZOOKEEPER: Final = "tests/system/test_zookeeper_failures.py::"
_OLD_LEADERS: Final = "tests/system/test_old_leaders.py::"
_GROUPS: Final = "tests/system/test_groups.py::"
_MOVES: Final = "tests/system/test_reassignment.py::"
_HOSTILE: Final = "tests/system/test_hostile_frames.py::"
_DEATHS: Final = "tests/system/battery/deaths.py::"
_DISKS: Final = "tests/system/battery/disks.py::"
_ENSEMBLES: Final = "tests/system/battery/ensembles.py::"
_MACHINE: Final = "tests/system/battery/machine.py::"
_TOPICS: Final = "tests/system/battery/topics.py::"
_TRANSACTIONS: Final = "tests/system/battery/transactions.py::"
_NETWORK: Final = "tests/system/battery/network.py::"


class Row(NamedTuple):
    """One fault; `tests` are pytest's node ids, without parameters."""

    title: str
    tests: tuple[str, ...]


ROWS: Final[dict[int, Row]] = {
    1: Row(
        "kill -9 of the leader, whoever it is, again and again",
        (
            f"{_FAILURES}test_death_of_a_leader",
            f"{_FAILURES}test_leader_that_comes_back_inside_its_old_session",
            f"{_DEATHS}test_the_leader_is_killed_again_and_again",
        ),
    ),
    2: Row(
        "kill -9 of a follower, which comes back at any lag",
        (f"{_FAILURES}test_death_of_a_follower", f"{_DEATHS}test_a_follower_comes_back_at_any_lag"),
    ),
    3: Row(
        "kill -9 of the controller while it makes topics and moves replicas",
        (
            f"{_FAILURES}test_death_of_the_controller",
            f"{_DEATHS}test_the_controller_dies_while_topics_are_made",
            f"{_MOVES}test_the_death_of_a_broker_in_the_middle_is_survived",
        ),
    ),
    4: Row(
        "kill -9 of a group's coordinator between any two of its steps",
        (
            f"{_GROUPS}test_the_coordinator_dies_while_members_commit",
            f"{_GROUPS}test_the_coordinator_dies_while_members_rebalance",
            f"{_DEATHS}test_the_coordinator_dies_between_its_steps",
        ),
    ),
    5: Row("kill -9 of all brokers at once", (f"{_DEATHS}test_all_brokers_are_killed_at_once",)),
    6: Row("power is lost at one replica", (f"{_DISKS}test_power_is_lost_at_one_replica",)),
    7: Row("power is lost at all replicas", (f"{_DISKS}test_power_is_lost_everywhere",)),
    8: Row(
        "a leader is frozen for longer than its session",
        (f"{_FAILURES}test_leader_frozen_for_longer_than_its_session",),
    ),
    9: Row("the controller is frozen for thirty seconds", (f"{_DEATHS}test_the_controller_is_frozen_for_long",)),
    10: Row(
        "ZooKeeper's leader, and all of ZooKeeper, are frozen",
        (f"{_ENSEMBLES}test_the_leader_of_zookeeper_is_frozen", f"{_ENSEMBLES}test_all_of_zookeeper_is_frozen"),
    ),
    11: Row(
        "a ZooKeeper server dies, leader or follower, and all are restarted in turn",
        (f"{_ZOOKEEPER}test_death_of_one_server", f"{_ENSEMBLES}test_zookeeper_is_restarted_server_by_server"),
    ),
    12: Row(
        "ZooKeeper's quorum is lost and comes back",
        (
            f"{_ZOOKEEPER}test_loss_and_return_of_the_quorum",
            f"{_ZOOKEEPER}test_death_of_a_leader_while_the_quorum_is_lost",
        ),
    ),
    13: Row("a session is expired behind its broker's back", (f"{_FAILURES}test_forced_expiry_of_a_session",)),
    14: Row(
        "a broker is cut from ZooKeeper only",
        (
            f"{_OLD_LEADERS}test_leader_cut_off_from_zookeeper_acknowledges_nothing_that_the_new_leader_lacks",
            f"{_OLD_LEADERS}test_broker_cut_off_for_less_than_its_session_goes_on",
        ),
    ),
    15: Row(
        "brokers are cut from each other, and all see ZooKeeper",
        (f"{_OLD_LEADERS}test_brokers_cut_from_each_other_see_zookeeper",),
    ),
    16: Row("a client is cut from its leader", (f"{_NETWORK}test_a_client_is_cut_from_its_leader",)),
    17: Row(
        "cuts in one direction, and a bridge",
        (
            f"{_NETWORK}test_a_leader_that_others_hear_and_that_hears_nobody",
            f"{_NETWORK}test_a_bridge_between_two_that_do_not_see_each_other",
        ),
    ),
    18: Row("a link between brokers flaps", (f"{_NETWORK}test_a_link_that_flaps",)),
    19: Row(
        "the end of a transaction is late",
        (f"{_TRANSACTIONS}test_an_end_that_comes_late_ends_the_next_transaction",),
    ),
    20: Row(
        "answers are lost",
        (
            f"{_NETWORK}test_answers_are_lost_and_requests_come_twice",
            f"{_NETWORK}test_administration_and_groups_whose_answers_are_lost",
        ),
    ),
    21: Row(
        "requests arrive twice",
        (
            f"{_NETWORK}test_answers_are_lost_and_requests_come_twice",
            f"{_NETWORK}test_administration_and_groups_whose_answers_are_lost",
        ),
    ),
    22: Row("the disk of a follower is slow", (f"{_DISKS}test_a_disk_is_slow",)),
    23: Row("a disk is full", (f"{_DISKS}test_a_disk_is_full",)),
    24: Row("a disk fails: EIO in writes and syncs", (f"{_DISKS}test_a_disk_fails",)),
    25: Row("the tail of a log is torn at any byte", (f"{_DISKS}test_a_tail_is_torn_at_any_byte",)),
    26: Row("bits turn in logs, indexes, snapshots and checkpoints", (f"{_DISKS}test_bits_turn",)),
    27: Row("files that a crash leaves behind", (f"{_DISKS}test_files_that_a_crash_leaves",)),
    28: Row("a checkpoint is stale, from the future, missing or garbage", (f"{_DISKS}test_a_checkpoint_is_wrong",)),
    29: Row("a clock jumps by an hour, forth and back", (f"{_MACHINE}test_a_clock_jumps",)),
    30: Row("no file is left", (f"{_MACHINE}test_no_file_is_left", f"{_MACHINE}test_more_partitions_than_files")),
    31: Row(
        "little memory, and large promises",
        (
            f"{_MACHINE}test_little_memory",
            "tests/wire/test_garbage.py::test_many_large_promises_do_not_grow_the_broker",
        ),
    ),
    32: Row(
        "bytes that are no requests, lie or grow",
        (
            f"{_HOSTILE}test_what_is_refused_is_refused_at_once",
            f"{_HOSTILE}test_every_array_of_every_request",
            f"{_HOSTILE}test_frames_of_a_fuzzer",
            "tests/wire/test_garbage.py::test_what_cannot_be_a_request_closes_its_connection",
            "tests/wire/test_garbage.py::test_half_a_request_harms_nobody",
            "tests/wire/test_garbage.py::test_random_frames_neither_stop_nor_grow_the_broker_nor_disturb_others",
        ),
    ),
    33: Row(
        "record batches that lie",
        (
            f"{_HOSTILE}test_compressed_records_that_become_very_many_bytes",
            "tests/wire/test_refusals.py::test_a_record_above_the_topics_limit_is_refused_and_the_next_is_taken",
        ),
    ),
    34: Row("clients that send a byte a second, or read nothing", (f"{_MACHINE}test_slow_and_silent_clients",)),
    35: Row("ten thousand idle connections, and a burst", (f"{_MACHINE}test_very_many_idle_connections",)),
    36: Row("connections come and go", (f"{_MACHINE}test_connections_come_and_go",)),
    37: Row(
        "who may do what: authentication broken off, replayed, wrong; what ACLs allow and deny, API by API",
        (
            "tests/peers/test_authentication.py",
            "tests/peers/test_authorization.py",
            "tests/wire/test_security.py",
            "tests/unit/broker/connections/test_sasl_authenticator.py",
            "tests/unit/security/test_sasl_mechanisms.py",
            "tests/unit/security/test_acl.py",
        ),
    ),
    38: Row(
        "names that would be paths",
        (
            f"{_MACHINE}test_a_client_that_asks_for_more_than_it_may",
            "tests/wire/test_refusals.py::test_bad_names_are_refused",
        ),
    ),
    39: Row(
        "garbage in znodes",
        (
            f"{_ZOOKEEPER}test_garbage_in_every_znode",
            f"{_ZOOKEEPER}test_a_seat_and_an_epoch_that_cannot_be_read",
            f"{_ZOOKEEPER}test_a_storm_of_changed_znodes",
        ),
    ),
    40: Row(
        "rolling restarts under writers, readers and groups",
        (
            f"{_FAILURES}test_rolling_restart",
            f"{_GROUPS}test_coordinators_stop_cleanly_one_after_the_other",
            f"{_DEATHS}test_rolling_restarts_with_groups",
        ),
    ),
    41: Row(
        "brokers and ZooKeeper servers are restarted in turn", (f"{_ENSEMBLES}test_everything_is_restarted_in_turn",)
    ),
    42: Row(
        "only a stale replica is left, with and without unclean elections",
        (f"{_DEATHS}test_only_a_stale_replica_is_left",),
    ),
    44: Row(
        "all partitions move under load",
        (
            f"{_MOVES}test_a_hundred_partitions_move_under_load_with_throttling",
            f"{_MOVES}test_a_move_can_be_superseded_and_cancelled",
            f"{_MOVES}test_the_death_of_a_broker_in_the_middle_is_survived",
        ),
    ),
    45: Row("a topic is deleted and made again fifty times", (f"{_TOPICS}test_a_topic_is_made_again_and_again",)),
    46: Row(
        "partitions are added under load, a topic is deleted while it moves",
        (f"{_TOPICS}test_partitions_are_added_under_load", f"{_TOPICS}test_a_topic_is_deleted_while_it_moves"),
    ),
    47: Row(
        "a storm of rebalances",
        ("tests/system/test_rebalance_storm.py",),
    ),
    48: Row(
        "two producers of one transactional id",
        (f"{_TRANSACTIONS}test_the_older_of_two_producers_is_fenced_when_it_wakes_up",),
    ),
    49: Row(
        "a transaction times out while its client is frozen",
        (f"{_TRANSACTIONS}test_a_transaction_times_out_while_its_client_is_frozen",),
    ),
    50: Row(
        "a producer's id expires, and brokers restart while it sends",
        (f"{_TOPICS}test_a_producer_is_forgotten_and_comes_back",),
    ),
    51: Row(
        "a coordinator's log is compacted and loaded",
        (f"{_TOPICS}test_the_log_of_a_coordinator_is_compacted_and_loaded",),
    ),
    52: Row(
        "a log is cut at its beginning while others read there",
        (f"{_TOPICS}test_a_log_is_cut_at_its_beginning_while_others_read_there",),
    ),
    53: Row(
        "elections of preferred leaders, and a stop that finds no successor",
        (
            f"{_DEATHS}test_preferred_leaders_are_elected_again_and_again",
            f"{_DEATHS}test_a_clean_stop_without_another_in_sync_replica_ends",
        ),
    ),
    54: Row("the event loop of a leader stands still", (f"{_DEATHS}test_the_event_loop_of_a_leader_stands_still",)),
}
ROWS[43] = ROWS[42]
