"""The table of settings against the sources: what claims an effect is read by some part, and what claims none by nobody."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import kafkalite
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.broker_keys import BROKER_KEYS
from kafkalite.config.keys import Effect, InvalidValue, Key
from kafkalite.config.topic import TOPIC_KEYS
from kafkalite.controller.settings import ControllerSettings
from kafkalite.coordinators.group.settings import GroupSettings

SOURCES = Path(kafkalite.__file__).parent
PARTS = (
    "broker",
    "controller",
    "coordinators",
    "storage",
    "protocol/record_batches/produce_validation.py",
    "zookeeper_connection.py",
)
HOLDERS = {"config", "_config", "current", "topic_defaults"}
"""What a `BrokerConfig`, a `TopicConfig` or a `Live` of them is called wherever a setting is read."""
RESOLVING = {"_resolve", "_identity_problems"}
"""Functions of `config.broker` in which a setting acts by itself: it makes another one, or decides whether the broker starts."""
OLDER_KEY_OF_BOTH = "message_timestamp_difference_max_ms"
"""Acts through the two keys that replaced it, in `config.topic`."""


def trees(*places: str) -> Iterator[ast.Module]:
    for place in places:
        path = SOURCES / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            yield ast.parse(file.read_text())


def holder(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def attributes_read(sources: Iterable[ast.AST], holders: set[str]) -> set[str]:
    """Names that are read from what is called like one of `holders`."""
    return {
        node.attr
        for tree in sources
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and holder(node.value) in holders
    }


def settings_read() -> set[str]:
    """The attributes of settings that some part of a broker reads."""
    resolving = [
        function
        for tree in trees("config/broker.py")
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name in RESOLVING
    ]
    texts = {
        node.value.replace(".", "_")
        for function in resolving
        for node in ast.walk(function)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    read = attributes_read([*trees(*PARTS), *resolving], HOLDERS) | texts
    return read | {OLDER_KEY_OF_BOTH} if OLDER_KEY_OF_BOTH in (SOURCES / "config/topic.py").read_text() else read


def topic_attributes_of(key: Key) -> set[str]:
    """The topic settings that a broker setting gives its default to."""
    return {topic.attribute for topic in TOPIC_KEYS.values() if key.name in {each.name for each in topic.synonyms}}


def test_every_setting_that_claims_an_effect_is_read_and_no_other() -> None:
    read, wrong = settings_read(), []
    for key in (*TOPIC_KEYS.values(), *BROKER_KEYS.values()):
        is_read = not read.isdisjoint({key.attribute} | topic_attributes_of(key))
        if is_read != (key.effect in (Effect.AT_ONCE, Effect.AT_RESTART)):
            wrong.append(f"{key.name}: effect {key.effect.value}, {'read' if is_read else 'read by nobody'}")
    assert not wrong, "\n".join(wrong)


def test_defaults_that_are_written_twice_agree() -> None:
    config = BrokerConfig()
    assert ControllerSettings() == ControllerSettings.from_config(0, config)
    assert GroupSettings() == GroupSettings.from_config(config)


def test_what_is_made_of_settings_is_read_too() -> None:
    read = {
        node.attr
        for tree in trees("controller", "coordinators")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
    }
    fields = {*ControllerSettings.__dataclass_fields__, *GroupSettings.__dataclass_fields__}
    assert fields <= read


def test_a_setting_says_why_it_has_no_effect_and_what_is_dynamic_acts_at_once() -> None:
    only_read_at_the_start = {"num.recovery.threads.per.data.dir"}
    for key in (*TOPIC_KEYS.values(), *BROKER_KEYS.values()):
        assert bool(key.reason) is (key.effect in (Effect.NONE, Effect.REFUSED)), key.name
        assert (key.reason in key.full_documentation) and key.full_documentation.startswith(key.documentation), key.name
        if key.dynamic:
            assert key.effect is not Effect.AT_RESTART or key.name in only_read_at_the_start, key.name
        else:
            assert key.effect is not Effect.AT_ONCE, key.name


def test_what_is_refused_takes_nothing_but_its_default() -> None:
    others = {True: False, False: True, None: "other:2181"}
    refused = [key for key in (*TOPIC_KEYS.values(), *BROKER_KEYS.values()) if key.effect is Effect.REFUSED]
    assert {"zookeeper.ssl.crl.enable", "authorizer.zookeeper.url", "remote.storage.enable"} <= {
        key.name for key in refused
    }
    for key in refused:
        assert key.check(key.default) == key.default
        try:
            key.check(others[key.default])
        except InvalidValue as problem:
            assert key.name in str(problem)
        else:
            raise AssertionError(key.name)
