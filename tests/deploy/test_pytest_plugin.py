"""The pytest plugin as its users run it: pytest of their own, on clusters of processes. (tests/containers has the other mode.)"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

PROJECT = """
    import pytest

    names = set()

    @pytest.fixture(scope="session")
    def kafkalite_properties():
        return {"message.max.bytes": "123456"}

    @pytest.mark.parametrize("number", range(2))
    def test_records_come_back(number, kafkalite_topic, kafkalite_producer, kafkalite_consumer):
        assert kafkalite_topic not in names
        names.add(kafkalite_topic)
        kafkalite_producer.send_and_wait(kafkalite_topic, b"%d" % number)
        assert next(kafkalite_consumer).value == b"%d" % number

    def test_topics_are_deleted_after_their_tests(kafkalite_admin):
        assert len(names) == 2
        assert not names & set(kafkalite_admin.list_topics())

    @pytest.mark.kafkalite_topic(partitions=3, config={"retention.ms": "5000"})
    def test_the_marker_shapes_the_topic(kafkalite_topic, kafkalite_admin):
        (topic,) = kafkalite_admin.describe_topics([kafkalite_topic])
        assert len(topic.partitions) == 3
        assert kafkalite_admin.describe_configs("topic", kafkalite_topic)["retention.ms"].value == "5000"

    def test_a_topic_may_be_deleted_by_its_test(kafkalite_topic, kafkalite_admin):
        kafkalite_admin.delete_topics([kafkalite_topic])

    def test_what_was_not_flushed_is_delivered(kafkalite_topic, kafkalite_producer):
        delivery = kafkalite_producer.send(kafkalite_topic, b"late")
        names.add(delivery)

    def test_it_was_delivered():
        (delivery,) = [each for each in names if not isinstance(each, str)]
        assert delivery.result().offset == 0

    def test_brokers_have_the_properties_of_the_project(kafkalite_admin, kafkalite_cluster):
        (broker,) = kafkalite_cluster.broker_ids
        assert kafkalite_admin.describe_configs("broker", str(broker))["message.max.bytes"].value == "123456"

    def test_a_request_fails(kafkalite_faults, kafkalite_topic, kafkalite_producer):
        refused = kafkalite_faults.fail("PRODUCE", "NOT_LEADER_OR_FOLLOWER", topic=kafkalite_topic)
        assert kafkalite_producer.send_and_wait(kafkalite_topic, b"again").offset == 0
        assert refused.hits == 1

    @pytest.mark.kafkalite_faults("fail", "PRODUCE", "NOT_LEADER_OR_FOLLOWER", topic="kafkalite_topic", nth=2)
    @pytest.mark.kafkalite_faults("drop", "PRODUCE", "answer", topic="elsewhere", required=False)
    def test_marked_faults_are_there_during_the_test(kafkalite_topic, kafkalite_producer):
        assert kafkalite_producer.send_and_wait(kafkalite_topic, b"undisturbed").offset == 0
        assert kafkalite_producer.send_and_wait(kafkalite_topic, b"repeated").offset == 1

    @pytest.mark.kafkalite_faults("fail", "OFFSET_COMMIT", "UNKNOWN_SERVER_ERROR")
    def test_nothing_meets_its_fault():
        pass

    @pytest.mark.kafkalite_faults("fail", "PRODUCE", "NO_SUCH_ERROR")
    def test_a_marker_that_cannot_be_read():
        pass

    def test_a_broker_may_be_restarted(kafkalite_cluster, kafkalite_topic, kafkalite_producer):
        kafkalite_producer.send_and_wait(kafkalite_topic, b"before")
        kafkalite_cluster.restart(1)
        assert kafkalite_producer.send_and_wait(kafkalite_topic, b"after").offset == 1

    @pytest.mark.kafkalite_topic(partition=2)
    def test_an_unknown_wish_for_a_topic(kafkalite_topic):
        pass

    def test_fails_with_the_cluster(kafkalite_topic):
        raise ValueError("on purpose")

    def test_fails_without_the_cluster():
        raise ValueError("on purpose")
"""


def test_a_project_with_all_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PROJECT)
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(passed=11, failed=4, errors=1)
    result.stdout.fnmatch_lines(["kafkalite_topic: *partition*"])
    result.stdout.fnmatch_lines(["no request met the fault 'fail', 'OFFSET_COMMIT', 'UNKNOWN_SERVER_ERROR'"])
    result.stdout.fnmatch_lines(["kafkalite_faults: the marker ('fail', 'PRODUCE', 'NO_SUCH_ERROR') of *"])
    with_logs, without_logs = result.stdout.str().split("_ test_fails_without_the_cluster _")
    assert "broker 1 at 127.0.0.1:" in with_logs
    assert "[KafkaServer id=1] started" in with_logs
    assert "broker 1 at" not in without_logs


def test_each_worker_of_xdist_has_a_cluster_of_its_own(pytester: pytest.Pytester, tmp_path: Path) -> None:
    """And a secured one, if that is wanted."""
    pytester.makepyfile(
        f"""
        import pytest
        from pathlib import Path

        @pytest.mark.parametrize("number", range(2))
        def test_one(number, worker_id, kafkalite_cluster, kafkalite_topic, kafkalite_producer):
            kafkalite_producer.send_and_wait(kafkalite_topic, b"x")
            assert kafkalite_cluster.security.client_settings("app")["security.protocol"] == "SASL_SSL"
            Path({str(tmp_path)!r}, worker_id).write_text(kafkalite_cluster.bootstrap_servers)
        """
    )
    pytester.runpytest_subprocess("--kafkalite-secure", "yes", "-n", "2", "--dist", "each").assert_outcomes(passed=4)
    servers = {path.name: path.read_text() for path in tmp_path.iterdir() if path.name in ("gw0", "gw1")}
    assert len(servers) == len(set(servers.values())) == 2


def test_a_machine_without_java_is_told_the_remedy(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    pytester.makepyfile("def test_one(kafkalite_cluster): pass\ndef test_two(kafkalite_cluster): pass")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["kafkalite_cluster: no Java to run ZooKeeper with; *"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_wrong_setting_is_told_in_one_line(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafkalite_zookeepers = 2")
    pytester.makepyfile("def test_one(kafkalite_cluster): pass\ndef test_two(): pass")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines(
        ["kafkalite_cluster: an ensemble of 2 servers survives no more failures than one of 1, *"]
    )
