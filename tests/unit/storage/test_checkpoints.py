"""Checkpoints, meta.properties and partition.metadata: bytes as Kafka writes them, and what is refused."""

from __future__ import annotations

import itertools

import pytest

from kafkalite.storage.checkpoints import (
    MalformedCheckpoint,
    offset_line,
    read_epochs,
    read_offsets,
    write_epochs,
    write_lines,
)
from kafkalite.storage.disk import OsDisk
from kafkalite.storage.log.partition_metadata import read_topic_id, write_topic_id
from kafkalite.storage.log_files import offset_name, offset_of, partition_of, suffixed_directory
from kafkalite.storage.meta_properties import WrongDirectory, read_meta_properties, write_meta_properties
from kafkalite.types import NO_TOPIC_ID, TopicPartition

DISK = OsDisk()


def test_offsets(tmp_path):
    path = tmp_path / "replication-offset-checkpoint"
    offsets = {TopicPartition("a.b-c", 0): 17, TopicPartition("__consumer_offsets", 49): 0}
    write_lines(DISK, str(path), "".join(itertools.starmap(offset_line, offsets.items())).encode())
    assert path.read_text() == "0\n2\na.b-c 0 17\n__consumer_offsets 49 0\n"
    assert read_offsets(DISK, str(path)) == offsets
    write_lines(DISK, str(path), b"")
    assert path.read_text() == "0\n0\n" and read_offsets(DISK, str(path)) == {}
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_epochs(tmp_path):
    path = tmp_path / "leader-epoch-checkpoint"
    write_epochs(DISK, str(path), [(0, 0), (5, 100)], durable=True)
    assert path.read_text() == "0\n2\n0 0\n5 100\n"
    assert read_epochs(DISK, str(path)) == [(0, 0), (5, 100)]


def test_missing_and_empty_files_have_no_entries(tmp_path):
    assert read_offsets(DISK, str(tmp_path / "none")) == {}
    (tmp_path / "empty").write_text("")
    assert read_offsets(DISK, str(tmp_path / "empty")) == {}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "1\n0\n",
            "0\n2\na 0 1\n",
            "0\n1\na 0 1\nb 0 1\n",
            "0\n1\na 0\n",
            "0\n1\na 0 x\n",
            "0\nx\n",
            "x",
            "0\n",
            "\xff",
        ),
        *("0\n1\na 0 --1\n", f"0\n1\na 0 {'9' * 5000}\n", f"0\n{'9' * 5000}\na 0 1\n"),
    ],
)
def test_malformed_files(tmp_path, text):
    path = tmp_path / "checkpoint"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(MalformedCheckpoint):
        read_offsets(DISK, str(path))


def test_an_epoch_that_no_batch_can_have_is_malformed(tmp_path):
    """The next append of a leader would fail with what nobody expects."""
    path = tmp_path / "epochs"
    path.write_text("0\n1\n4294967296 0\n")
    with pytest.raises(MalformedCheckpoint, match="no leader epoch"):
        read_epochs(DISK, str(path))


def test_meta_properties(tmp_path):
    path = tmp_path / "meta.properties"
    assert read_meta_properties(DISK, str(path)) is None
    write_meta_properties(DISK, str(path), 7, "Q3Vpd2x1c3RlcklkMTIz")
    assert read_meta_properties(DISK, str(path)) == (7, "Q3Vpd2x1c3RlcklkMTIz")
    path.write_text("#\n#Sat Nov 18 10:00:00 UTC 2023\ncluster.id = abc\nversion=0\nbroker.id=3\n")
    assert read_meta_properties(DISK, str(path)) == (3, "abc")
    path.write_text("broker.id=3\n")
    assert read_meta_properties(DISK, str(path)) == (3, None)


@pytest.mark.parametrize("text", ["version=1\nnode.id=3\n", "broker.id=three\n"])
def test_meta_properties_of_other_kinds(tmp_path, text):
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(WrongDirectory):
        read_meta_properties(DISK, str(tmp_path / "meta.properties"))


def test_topic_ids(tmp_path):
    path = str(tmp_path / "partition.metadata")
    assert read_topic_id(DISK, path) == NO_TOPIC_ID
    write_topic_id(DISK, path, bytes(range(16)))
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert read_topic_id(DISK, path) == bytes(range(16))
    for text in ("version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n", "version: 0\ntopic_id: short\n", "\n"):
        (tmp_path / "partition.metadata").write_text(text)
        with pytest.raises(OSError):
            read_topic_id(DISK, path)


def test_names():
    assert offset_name(15, ".log") == "00000000000000000015.log"
    assert offset_of("00000000000000000015.log", ".log") == 15
    assert offset_of("00000000000000000015.log.deleted", ".log") is None
    assert partition_of("a-b-12") == TopicPartition("a-b", 12)
    assert [partition_of(name) for name in ("lost+found", "a-", "-3", "a-x", "a")] == [None] * 5
    name = suffixed_directory(TopicPartition("t" * 249, 123), "0" * 32, "-delete")
    assert len(name) == 255 and name.endswith("-123." + "0" * 32 + "-delete")
