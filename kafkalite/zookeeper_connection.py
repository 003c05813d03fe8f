"""Security of this program's ZooKeeper sessions by settings: brokers' own, `--zk-tls-config-file` of tools, contexts and the environment.

TLS is `zookeeper.ssl.*`; who this is, is the section `Client` of a JAAS file (DIGEST-MD5) or the certificate of the key store.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Final

from kafkalite import OWN_SETTINGS, OWN_VARIABLES
from kafkalite.config.keys import ConfigError, InvalidValue
from kafkalite.config.zookeeper_keys import ZOOKEEPER_KEYS, ZookeeperSettings, zookeeper_settings
from kafkalite.security.jaas import jaas_file, parse_jaas_file
from kafkalite.security.secret_files import ALLOWED_BY, read_secret
from kafkalite.security.tls import StoreSettings, TlsError, TlsSettings, client_context
from zk.security.digest_md5 import DigestCredentials
from zk.security.store_security import StoreSecurity

_SECTION: Final = "Client"
_DIGEST: Final = "DigestLoginModule"


def store_security(config: ZookeeperSettings, environment: Mapping[str, str] = os.environ) -> StoreSecurity:
    """Return the security by a broker's settings. Raises ConfigError, which names what is invalid or missing."""
    credentials = _credentials(config, environment)
    tls = _tls(config)
    if tls is not None:
        try:
            client_context(tls)
        except TlsError as problem:
            raise ConfigError(f"TLS to ZooKeeper: zookeeper.{problem}") from None

    def context() -> ssl.SSLContext:
        try:
            return client_context(tls)  # type: ignore[arg-type]
        except TlsError as problem:
            raise ConnectionError(f"TLS to ZooKeeper: zookeeper.{problem}") from None

    security = StoreSecurity(
        context=None if tls is None else context,
        shows_certificate=tls is not None and tls.keystore.is_set,
        credentials=credentials,
        sets_acls=config.zookeeper_set_acl,
    )
    if security.sets_acls and not security.has_identity:
        raise ConfigError(
            "zookeeper.set.acl is true, but ZooKeeper would not know who owns the znodes: name a JAAS file with a section Client "
            "(DigestLoginModule) as kafkalite.jaas.file, or set zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
        )
    return security


def security_of_texts(texts: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> StoreSecurity:
    """Return the security by settings of a tool; other keys are ignored."""
    try:
        return store_security(zookeeper_settings(texts), environment)
    except InvalidValue as problem:
        raise ConfigError(str(problem)) from None


def environment_texts(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of `ZOOKEEPER_KEYS` in the environment: KAFKALITE_ZOOKEEPER_SSL_CLIENT_ENABLE, KAFKALITE_JAAS_FILE."""
    named = {
        key: f"{OWN_VARIABLES}{key.removeprefix(OWN_SETTINGS).replace('.', '_').upper()}" for key in ZOOKEEPER_KEYS
    }
    return {key: environment[name] for key, name in named.items() if environment.get(name)}


def security_of_environment() -> StoreSecurity:
    """Return the security by the environment of this process. Raises ValueError for invalid settings."""
    try:
        return security_of_texts(environment_texts(os.environ))
    except ConfigError as problem:
        raise ValueError(str(problem)) from None


def _tls(config: ZookeeperSettings) -> TlsSettings | None:
    if not config.zookeeper_ssl_client_enable:
        return None
    return TlsSettings(
        keystore=StoreSettings(
            location=config.zookeeper_ssl_keystore_location,
            password=config.zookeeper_ssl_keystore_password,
            private_unless=None if config.kafkalite_allow_world_readable_secrets else ALLOWED_BY,
        ),
        truststore=StoreSettings(
            location=config.zookeeper_ssl_truststore_location, password=config.zookeeper_ssl_truststore_password
        ),
        enabled_protocols=config.zookeeper_ssl_enabled_protocols or (config.zookeeper_ssl_protocol, "TLSv1.3"),
        cipher_suites=config.zookeeper_ssl_cipher_suites or (),
        checks_hostname=bool(config.zookeeper_ssl_endpoint_identification_algorithm),
    )


def _credentials(config: ZookeeperSettings, environment: Mapping[str, str]) -> DigestCredentials | None:
    path = jaas_file(config.kafkalite_jaas_file, environment)
    if path is None:
        return None
    try:
        sections = parse_jaas_file(
            read_secret(path, "passwords", is_allowed=config.kafkalite_allow_world_readable_secrets)
        )
    except (OSError, ValueError) as problem:
        raise ConfigError(f"kafkalite.jaas.file {path}: {problem}") from None
    modules = sections.get(_SECTION)
    if not modules:
        return None
    module = modules[0]
    if not module.name.endswith(_DIGEST) or not {"username", "password"} <= module.options.keys():
        raise ConfigError(
            f"kafkalite.jaas.file {path}: its section {_SECTION} needs a {_DIGEST} with username and password"
        )
    return DigestCredentials(module.options["username"], module.options["password"])
