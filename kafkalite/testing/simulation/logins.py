"""How brokers and clients of a simulated cluster authenticate, where they do: SASL/PLAIN, which needs no key derivation and so no time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PROTOCOL: Final = "SASL_PLAINTEXT"
USER: Final = "simulated"
PASSWORD: Final = "simulated-secret"
_LOGIN: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
)

BROKER_SETTINGS: Final[Mapping[str, str]] = {
    "security.inter.broker.protocol": PROTOCOL,
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    f"listener.name.{PROTOCOL.lower()}.plain.sasl.jaas.config": _LOGIN,
}
CLIENT_OPTIONS: Final[Mapping[str, Any]] = {
    "security_protocol": PROTOCOL,
    "sasl_mechanism": "PLAIN",
    "sasl_username": USER,
    "sasl_password": PASSWORD,
}
