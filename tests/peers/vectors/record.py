"""Records what Kafka's Java client answers into tests/unit/client/vectors: `python -m tests.peers.vectors.record`.

The unit tests read the recordings; tests/peers asks the Java client again, with other cases.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.peers.apache_kafka import java_command
from tests.unit.client.java_vectors import FOLDER, assignor_questions, encoding_questions, partition_questions


def ask_java(questions: Sequence[str]) -> list[str]:
    """Kafka's Java client's answers, in order."""
    command = java_command(Path(__file__).with_name("Vectors.java"))
    asked = "".join(question + "\n" for question in questions)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=300)
    answers = [line for line in done.stdout.splitlines() if not line.startswith(("log4j", "SLF4J"))]
    assert done.returncode == 0 and len(answers) == len(questions), done.stderr[-3000:]
    return answers


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    partitions = ask_java(partition_questions())
    (FOLDER / "partitions.txt").write_text(bytes(int(each) for each in partitions).hex() + "\n")
    for name, questions in (
        ("assignments", assignor_questions(seed=1, count=160)),
        ("encodings", encoding_questions(seed=1, count=60)),
    ):
        lines = [f"{question} -> {answer}\n" for question, answer in zip(questions, ask_java(questions), strict=True)]
        (FOLDER / f"{name}.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
