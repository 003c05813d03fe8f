"""The table of the settings of TLS to ZooKeeper and of znodes' ACLs, with Kafka's names and defaults (`ZkConfigs`).

`--zk-tls-config-file` of Kafka's tools is a file with these.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafkalite import OWN_SETTINGS
from kafkalite.config.keys import INT_MAX, ConfigType, Effect, Key, between, declare, keys_of, rule
from kafkalite.config.security_keys import SecuritySettings

_SEEN: Final = "what kind a store is, is seen in its first bytes"
_JUTE_OF_JAVA: Final = r"-Djute\.maxbuffer=(0[xX][0-9a-fA-F]+|\d+)(?!\S)"
_JUTE_LEAST: Final = 16 * 1024
"""Less would not hold the settings of one topic, or the registration of a broker with many listeners."""


_text = partial(declare, ConfigType.STRING)
_password = partial(declare, ConfigType.PASSWORD, None)
_list = partial(declare, ConfigType.LIST, None)
_boolean = partial(declare, ConfigType.BOOLEAN, False)
_unsupported_boolean = partial(
    _boolean,
    rule=rule("Revocation of certificates is not looked up; set it to false", operator.not_),
    effect=Effect.REFUSED,
    reason="revoked certificates would be accepted",
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ZookeeperSettings(SecuritySettings):
    """How ZooKeeper is reached, beside where it is. There is no `repr`: it would show secrets."""

    zookeeper_set_acl: bool = _boolean(
        "Protect znodes with access control lists? Needs an identity: JAAS or a certificate."
    )
    zookeeper_ssl_client_enable: bool = _boolean("Speak TLS with ZooKeeper?")
    zookeeper_clientCnxnSocket: str | None = _text(
        None,
        "Java's class of connections to ZooKeeper.",
        reason="zookeeper.ssl.client.enable alone says whether it is TLS",
    )
    zookeeper_ssl_keystore_location: str | None = _text(
        None, "Key store with the certificate that is shown to ZooKeeper; read again for each connection."
    )
    zookeeper_ssl_keystore_password: str | None = _password("Secret of the key store for ZooKeeper.")
    zookeeper_ssl_keystore_type: str | None = _text(None, "PEM, PKCS12 or JKS.", reason=_SEEN)
    zookeeper_ssl_truststore_location: str | None = _text(
        None, "File of the certificates that ZooKeeper's must be signed by; those of the system if unset."
    )
    zookeeper_ssl_truststore_password: str | None = _password(
        "Secret of the store of trusted certificates for ZooKeeper."
    )
    zookeeper_ssl_truststore_type: str | None = _text(None, "PEM, PKCS12 or JKS.", reason=_SEEN)
    zookeeper_ssl_protocol: str = _text(
        "TLSv1.2", "Oldest version of TLS that is spoken with ZooKeeper (in Kafka, the only one)."
    )
    zookeeper_ssl_enabled_protocols: tuple[str, ...] | None = _list(
        "Versions of TLS that are spoken with ZooKeeper; unset: from zookeeper.ssl.protocol on."
    )
    zookeeper_ssl_cipher_suites: tuple[str, ...] | None = _list("Ciphers of TLS 1.2 by their names in Java.")
    zookeeper_ssl_endpoint_identification_algorithm: str = _text(
        "HTTPS", "How the names of ZooKeeper's servers are checked; empty: not at all."
    )
    zookeeper_ssl_crl_enable: bool = _unsupported_boolean("Look up lists of revoked certificates?")
    zookeeper_ssl_ocsp_enable: bool = _unsupported_boolean("Ask whether a certificate was revoked?")
    kafkalite_zookeeper_jute_maxbuffer: int | None = declare(
        ConfigType.INT,
        None,
        "jute.maxbuffer of ZooKeeper's servers and of Apache Kafka's brokers in this cluster; topics are refused that would bring a "
        "znode or the list of topics near it. Unset: the one in KAFKA_OPTS; without it 1048575 for znodes and 4194304 for the list, "
        "the defaults of servers and of those brokers.",
        between(_JUTE_LEAST, INT_MAX),
    )
    kafkalite_jaas_file: str | None = _text(
        None,
        "File of JAAS sections: Client (who this is for ZooKeeper), and for listeners without sasl.jaas.config "
        "<listener>.KafkaServer and KafkaServer. Unset: the one that KAFKA_OPTS names.",
    )
    kafkalite_allow_world_readable_secrets: bool = _boolean(
        "May key stores, private keys and JAAS files be readable by everybody on the machine?"
    )


ZOOKEEPER_KEYS: Final[Mapping[str, Key]] = {
    name: key for name, key in keys_of(ZookeeperSettings).items() if name.startswith(("zookeeper.", OWN_SETTINGS))
}


def jute_maxbuffer(setting: int | None, environment: Mapping[str, str] = os.environ) -> int | None:
    """Return the bytes that a setting gives, else those that KAFKA_OPTS gives to Java; None without any, or for more than Java takes."""
    if setting is not None:
        return setting
    given = re.findall(_JUTE_OF_JAVA, environment.get("KAFKA_OPTS", ""))  # the last one counts
    if not given:
        return None
    size_bytes = int(given[-1], 0 if given[-1][:2] in ("0x", "0X") else 10)
    return max(size_bytes, _JUTE_LEAST) if size_bytes <= INT_MAX else None


def zookeeper_settings(texts: Mapping[str, str]) -> ZookeeperSettings:
    """Return the settings of a file or a context; other keys are left out. InvalidValue names the key whose value is wrong."""
    given = {key.attribute: key.parse(texts[name]) for name, key in ZOOKEEPER_KEYS.items() if name in texts}
    return ZookeeperSettings(**given)
