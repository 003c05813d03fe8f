"""ZooKeeper's limit of size, by a setting or by the variable of Kafka's scripts."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.keys import ConfigError
from kafkalite.config.zookeeper_keys import jute_maxbuffer
from kafkalite.controller.settings import ControllerSettings
from zk.size_limits import SizeLimits

KEY = "kafkalite.zookeeper.jute.maxbuffer"


@pytest.mark.parametrize(
    ("setting", "options", "expected"),
    [
        (None, None, None),
        (20_000, None, 20_000),
        (20_000, "-Djute.maxbuffer=30000", 20_000),
        (None, "-Xmx1g -Djute.maxbuffer=30000 -Da=b", 30_000),
        (None, "-Djute.maxbuffer=0x9fffff", 10_485_759),
        (None, "-Djute.maxbuffer=30000 -Djute.maxbuffer=40000", 40_000),
        (None, "-Djute.maxbuffer=5", 16_384),
        (None, "-Djute.maxbuffer=2147483647", 2_147_483_647),
        (None, "-Djute.maxbuffer=2147483648", None),
        (None, "-Djute.maxbuffer=4M -Djute.maxbufferx=1 -Dxjute.maxbuffer=2", None),
    ],
)
def test_a_setting_comes_before_javas(setting: int | None, options: str | None, expected: int | None) -> None:
    assert jute_maxbuffer(setting, {} if options is None else {"KAFKA_OPTS": options}) == expected


def test_the_controller_has_the_brokers_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)

    def limits(size: str | None = None) -> SizeLimits:
        given = {} if size is None else {KEY: size}
        config = BrokerConfig.from_properties({"zookeeper.connect": "z", **given})
        return ControllerSettings.from_config(1, config).size_limits

    assert limits() == SizeLimits()
    assert limits(size="20000") == SizeLimits(20_000, 20_000)
    monkeypatch.setenv("KAFKA_OPTS", "-Djute.maxbuffer=50000")
    assert limits() == SizeLimits(50_000, 50_000)
    with pytest.raises(ConfigError, match=r"16384"):
        limits(size="100")
