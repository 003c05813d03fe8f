"""Questions to Kafka's Java client, and their recorded answers in vectors/: one format for recorder and tests.

The format of questions is in tests/peers/vectors/Vectors.java. Keys of the partition questions are derived from their number, so that
only the answers need to be kept: one byte per key, the partition of 97.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from pathlib import Path

from kafkalite.client.group.assignors import ASSIGNORS
from kafkalite.client.group.consumer_protocol import Subscription, encode_generation, encode_sticky_data
from kafkalite.types import TopicPartition

FOLDER = Path(__file__).parent / "vectors"
PARTITION_COUNT = 97
KEYS = [hashlib.shake_128(b"%d" % number).digest(1 + number % 100) for number in range(10_000)]


def partition_questions() -> list[str]:
    return [f"partition {PARTITION_COUNT} {key.hex()}" for key in KEYS]


def recorded_partitions() -> list[int]:
    return list(bytes.fromhex((FOLDER / "partitions.txt").read_text()))


def recorded(name: str) -> list[tuple[str, str]]:
    """(question, Java's answer) pairs."""
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    return [(question, answer) for question, _, answer in (line.partition(" -> ") for line in lines)]


# members as text


def member_text(member_id: str, member: Subscription) -> str:
    user_data = "-" if member.user_data is None else member.user_data.hex()
    topics = ",".join(member.topics) or "-"
    owned = partitions_text(member.owned_partitions)
    return f"{member_id};{topics};{owned};{member.generation_id};{user_data};{member.group_instance_id or '-'}"


def parse_member(text: str) -> tuple[str, Subscription]:
    member_id, topics, owned, generation, user_data, instance = text.split(";")
    return member_id, Subscription(
        tuple(topics.split(",")) if topics != "-" else (),
        None if user_data == "-" else bytes.fromhex(user_data),
        parse_partitions(owned),
        int(generation),
        None,
        None if instance == "-" else instance,
    )


def partitions_text(partitions: tuple[TopicPartition, ...]) -> str:
    return ",".join(f"{topic}:{number}" for topic, number in partitions) or "-"


def parse_partitions(text: str) -> tuple[TopicPartition, ...]:
    if text in ("-", ""):
        return ()
    return tuple(
        TopicPartition(topic, int(number)) for topic, _, number in (each.rpartition(":") for each in text.split(","))
    )


def answer(question: str) -> str:
    """Our own answer to an "assign" question."""
    _, name, counts, *members = question.split(" ")
    sides = [each.split("=") for each in counts.split(",")]
    partition_counts = {topic: int(count) for topic, count in sides}
    result = ASSIGNORS[name].assign(partition_counts, dict(map(parse_member, members)))
    return answer_text(result)


def answer_text(result: Mapping[str, list[TopicPartition]]) -> str:
    return " ".join(
        f"{member_id}={','.join(f'{topic}:{number}' for topic, number in partitions)}"
        for member_id, partitions in sorted(result.items())
    )


def in_order(text: str) -> str:
    """An answer whose partitions are sorted, for assignors whose order within a member means nothing."""
    members = dict(each.split("=") for each in text.split(" "))
    return answer_text({member: sorted(parse_partitions(partitions)) for member, partitions in members.items()})


# random questions


def assignor_questions(seed: int, count: int) -> list[str]:
    """Groups of all kinds for each assignor in turn: fresh, with owned partitions of one or of several generations, changed topics."""
    chance = random.Random(seed)
    return [_assignor_question(chance, list(ASSIGNORS)[number % 4]) for number in range(count)]


def _assignor_question(chance: random.Random, name: str) -> str:
    topics = [f"topic-{chance.randrange(100)}" for _ in range(chance.randint(1, 5))]
    counts = {topic: chance.randint(1, 9) for topic in topics}
    alike = chance.random() < 0.5
    owned_share = chance.choice([0, 0, 0.5, 0.9, 1])
    members = [f"consumer-{chance.randrange(1000)}-{chance.randrange(16**8):08x}" for _ in range(chance.randint(1, 8))]
    owner_of: dict[TopicPartition, str] = {}
    subscribed = {
        member: tuple(sorted(counts) if alike else chance.sample(sorted(counts), chance.randint(1, len(counts))))
        for member in members
    }
    lopsided = chance.random() < 0.4
    for topic, number_of in counts.items():
        for number in range(number_of):
            if chance.random() < owned_share:
                owner = chance.choice(members[:2] if lopsided else members)
                if topic in subscribed[owner] or chance.random() < 0.2:
                    owner_of[TopicPartition(topic, number)] = owner
    generations = {member: chance.choice([7, 7, 7, 6]) if chance.random() < 0.3 else 7 for member in members}
    texts = []
    for number, member in enumerate(members):
        owned = tuple(each for each, owner in owner_of.items() if owner == member)
        if generations[member] == 6:
            # Java may give a member a partition of its older generation whose topic it has left; ours do not.
            owned = tuple(each for each in owned if each.topic in subscribed[member])
            stale = [TopicPartition(topic, chance.randrange(counts[topic])) for topic in subscribed[member]]
            owned = tuple(dict.fromkeys([*owned, *stale]))
        instance = f"instance-{number}" if chance.random() < 0.2 else None
        texts.append(member_text(member, _subscription(name, subscribed[member], owned, generations[member], instance)))
    wanted = {topic for topics_of_member in subscribed.values() for topic in topics_of_member}
    counts_text = ",".join(f"{topic}={number}" for topic, number in counts.items() if topic in wanted)
    return f"assign {name} {counts_text} {' '.join(texts)}"


def _subscription(
    name: str, topics: tuple[str, ...], owned: tuple[TopicPartition, ...], generation: int, instance: str | None
) -> Subscription:
    if name == "sticky":
        data = encode_sticky_data(owned, generation) if owned else None
        return Subscription(topics, data, (), -1, None, instance)
    if name == "cooperative-sticky":
        if len(owned) % 2:
            return Subscription(topics, encode_generation(generation), owned, -1, None, instance)
        return Subscription(topics, encode_generation(generation), owned, generation, None, instance)
    return Subscription(topics, group_instance_id=instance)


def encoding_questions(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    questions = []
    for number in range(count):
        owned = tuple(
            TopicPartition(f"t{topic}", partition)
            for topic in range(chance.randrange(3))
            for partition in range(chance.randint(1, 3))
        )
        data = chance.choice([None, b"", chance.randbytes(3)]) or None
        if number % 2:
            member = Subscription(("a", "bb", "ünï")[: chance.randint(1, 3)], data, owned, chance.randrange(-1, 9))
            questions.append(f"subscription {chance.randrange(4)} {member_text('m', member)}")
        else:
            data_text = "-" if data is None else data.hex()
            questions.append(f"assignment {chance.randrange(4)} {partitions_text(owned)} {data_text}")
    return questions
