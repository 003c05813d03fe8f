"""The pytest plugin with --kafkalite-mode=docker, as its users run it. (tests/deploy has the other mode.)"""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)

PROJECT = """
    def test_a_record_comes_back(kafkalite_topic, kafkalite_producer, kafkalite_consumer):
        kafkalite_producer.send_and_wait(kafkalite_topic, b"hello")
        assert next(kafkalite_consumer).value == b"hello"

    def test_the_cluster_is_in_containers(kafkalite_cluster):
        assert kafkalite_cluster.internal_bootstrap_servers
        raise ValueError("on purpose")
"""


def test_a_cluster_in_containers(pytester: pytest.Pytester, image: str) -> None:
    pytester.makepyfile(PROJECT)
    pytester.makeini("[pytest]\nkafkalite_mode = docker")
    result = pytester.runpytest_subprocess(f"--kafkalite-image={image}")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*ValueError: on purpose", "*KafkaServer id=1* started"])


def test_an_image_that_is_not_there_is_told_in_one_line(
    pytester: pytest.Pytester, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del image  # Docker is there
    monkeypatch.setenv("KAFKALITE_IMAGE", "kafkalite:never-built")
    pytester.makepyfile("def test_one(kafkalite_cluster): pass")
    result = pytester.runpytest_subprocess("--kafkalite-mode=docker")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["kafkalite_cluster: there is no image kafkalite:never-built; build it with: deploy/build-image"]
    )
    result.stdout.no_fnmatch_line("*During handling*")


def test_a_machine_without_docker_is_told_the_remedy(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    pytester.makepyfile("def test_one(kafkalite_cluster): pass")
    result = pytester.runpytest_subprocess("--kafkalite-mode=docker")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["kafkalite_cluster: Docker's engine cannot be reached *; start it, or *"])
