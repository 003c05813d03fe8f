"""Paths as Kafka has them."""

import pytest

from zk import paths


def test_names():
    assert paths.broker(1) == "/brokers/ids/1"
    assert paths.partition_state("t", 0) == "/brokers/topics/t/partitions/0/state"
    assert paths.delete_topic("t") == "/admin/delete_topics/t"
    assert paths.topic_config("t") == paths.config("topics/t") == "/config/topics/t"
    assert paths.broker_config(None) == "/config/brokers/<default>"
    assert paths.user_config("a b", "<default>") == "/config/users/a%20b/clients/<default>"


def test_family():
    assert paths.ancestors("/a/b/c") == ["/a", "/a/b"]
    assert (paths.parent("/a/b"), paths.parent("/a"), paths.name("/a/b")) == ("/a", "/", "b")
    assert (paths.child("/", "a"), paths.child("/a", "b")) == ("/a", "/a/b")


@pytest.mark.parametrize(
    ("entity", "znode"),
    [("<default>", "<default>"), ("a b+c*d~e/f", "a%20b%2Bc%2Ad%7Ee%2Ff"), ("ü_-.", "%C3%BC_-.")],
)
def test_entity_names_are_encoded(entity, znode):
    assert paths.sanitize(entity) == znode
    assert paths.desanitize(znode) == entity


def test_sequence_numbers():
    assert paths.sequence_number("/config/changes/config_change_0000000012") == 12
    with pytest.raises(ValueError, match="does not end in a sequence number"):
        paths.sequence_number("config_change_")


def test_only_paths_spells_paths():
    """The other modules get their paths from zk.paths."""
    from pathlib import Path

    roots = [*paths.PERSISTENT, paths.CONTROLLER, paths.CONTROLLER_EPOCH, paths.FEATURE]
    for module in Path(paths.__file__).parent.rglob("*.py"):
        if module.name != "paths.py":
            source = module.read_text()
            assert not [root for root in roots if f'"{root}' in source], module


@pytest.mark.parametrize("name", ["a\nb", "a\0", "\ud800", "😀", "\uf000", "a\x7f"])
def test_names_that_zookeeper_takes_in_no_path_are_refused_before_they_are_sent(name: str) -> None:
    with pytest.raises(ValueError, match="no absolute path"):
        paths.check(f"/consumers/{name}")


def test_elements_that_are_empty_or_relative_are_refused() -> None:
    for path in ("", "a", "a/b", "//", "/a/", "/a//b", "/.", "/..", "/a/.", "/a/..", "/a/./b", "/a/../b", "/a/\u00e9/"):
        with pytest.raises(ValueError, match=r"no absolute path|empty or relative"):
            paths.check(path)
    for path in ("/", "/a", "/a/.b", "/a/...", "/a/b.", "/a/\u00e9", "/a b"):
        assert paths.check(path) == path
