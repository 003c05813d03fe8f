"""A server that cannot start says why: with a Java that is too old, on a disk that is full, for reasons of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from zk.servers.ensemble import Ensemble, EnsembleError
from zk.servers.java_remedy import java_remedy


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (
            "java.lang.UnsupportedClassVersionError: QuorumPeerMain",
            f"because its Java is too old ({java_remedy()}, or set JAVA_HOME",
        ),
        ("Unrecognized VM option 'UseSomething'", "because its Java is too old"),
        ("java.io.IOException: No space left on device", "because the disk is full"),
        ("Invalid config, exiting abnormally", "ended with status 3; it logged:"),
    ],
)
def test_a_server_that_ends_says_what_helps(
    printed: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java-home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\necho "{printed}"\nexit 3\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java-home"))
    ensemble = Ensemble(tmp_path / "zookeeper", classpath=[tmp_path / "none.jar"])
    with pytest.raises(EnsembleError) as raised:
        asyncio.run(ensemble.start(30))
    assert said in str(raised.value) and printed in str(raised.value)
