"""Client quotas: whose quota counts for a client, and how long a client that exceeds it is silenced (KIP-13, 55, 124, 219, 599). Pure.

A quota is set for an entity: a user, a client id, or a client id of a user, each by name or as the default of all that
have no own. The first entity that has the key wins, in this order: user and client, user and any client, user, any user and
client, any user and any client, any user, client, any client. A default is given to each on its own: two clients that fall under
`/clients/<default>` do not share it, two connections of one client do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Final, Literal, NamedTuple, TypeAlias

from kafkalite.broker.settings.rates import ClientRate, TokenBucket
from kafkalite.config.keys import ConfigType
from kafkalite.errors import ErrorCode, KafkaError


class Every(Enum):
    """Stands for the name of all that have no own quota."""

    DEFAULT = "<default>"


DEFAULT: Final = Every.DEFAULT
Name: TypeAlias = str | Literal[Every.DEFAULT] | None
"""Of a user, a client or an ip; None where the entity has no such part."""


class QuotaEntity(NamedTuple):
    """The user, client id or both that a quota is for, or an `ip` alone."""

    user: Name = None
    client_id: Name = None
    ip: Name = None


PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CLIENT_KEYS: Final[Mapping[str, ConfigType]] = {
    PRODUCER_BYTE_RATE: ConfigType.LONG,
    CONSUMER_BYTE_RATE: ConfigType.LONG,
    REQUEST_PERCENTAGE: ConfigType.DOUBLE,
    CONTROLLER_MUTATION_RATE: ConfigType.DOUBLE,
}
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
IP_KEYS: Final[Mapping[str, ConfigType]] = {CONNECTION_CREATION_RATE: ConfigType.INT}

_EPSILON: Final = 1e-6
_NS_OF_A_PERCENT: Final = 10_000_000
"""Of a second."""
_LEAST_BEFORE_PURGE: Final = 1024


def quota_keys(entity: QuotaEntity) -> Mapping[str, ConfigType]:
    """Return the keys that the entity may have; others in its znode, such as SCRAM credentials, are no quotas."""
    return CLIENT_KEYS if entity.ip is None else IP_KEYS


def quota_text(entity: QuotaEntity, key: str, value: float) -> str:
    """Return a value as it is kept in ZooKeeper. Raises KafkaError INVALID_REQUEST, in Kafka's words, for what the key does not take.

    Whole numbers are rounded as in Kafka, by which a negative one is refused as not whole.
    """
    kind = quota_keys(entity).get(key)
    if kind is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
    if kind is ConfigType.DOUBLE:
        return _java_double(value)
    whole = int(value + _EPSILON) if isfinite(value) else 0
    if not abs(whole - value) <= _EPSILON:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Configuration {key} must be a {kind.name} value")
    return str(whole)


def _java_double(value: float) -> str:
    """Return the number as Java writes a double: 10000000.0 is 1.0E7."""
    if value == 0 or 1e-3 <= abs(value) < 1e7 or not isfinite(value):
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    tail = text[1:].rstrip("0") or "0"
    return f"{'-' if sign else ''}{text[0]}.{tail}E{len(text) - 1 + int(exponent)}"


class ClientQuota:
    """One key of quotas: who has it, and whose usage counts together."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._bounds: dict[tuple[Name, Name], float] = {}
        self.throttled = 0
        """Number of throttled requests."""
        self.throttled_ms = 0.0
        """Sum of their throttle times."""

    @property
    def is_set(self) -> bool:
        """True if anybody has this quota; checked first, because most clusters have none."""
        return bool(self._bounds)

    def take(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> None:
        """Replace the entity's bound by that in `quotas`, if it is there."""
        if entity.ip is not None:
            return
        if self._key in quotas:
            self._bounds[entity.user, entity.client_id] = quotas[self._key]
        else:
            self._bounds.pop((entity.user, entity.client_id), None)

    def bound(self, user: str, client_id: str) -> float | None:
        """Return what this client may use in a second; None without a quota."""
        found = self._find(user, client_id)
        return None if found is None else found[1]

    def _find(self, user: str, client_id: str) -> tuple[tuple[str, str], float] | None:
        """Return the client that shares the usage, and the bound, of the entity that counts; None without a quota."""
        for entity in _candidates(user, client_id):
            bound = self._bounds.get(entity)
            if bound is not None:
                return ("" if entity[0] is None else user, "" if entity[1] is None else client_id), bound
        return None

    def record_throttle(self, throttle_ms: int) -> int:
        """Count a throttle of this many ms, and return it."""
        self.throttled += 1
        self.throttled_ms += throttle_ms
        return throttle_ms


class ByteRateQuota(ClientQuota):
    """A bound on a rate. `count` samples of `length_ms` each are kept."""

    def __init__(self, key: str, count: int, length_ms: float) -> None:
        super().__init__(key)
        self._count, self._length_ms = count, length_ms
        self._rates: dict[tuple[str, str], ClientRate] = {}
        self._purge_at = _LEAST_BEFORE_PURGE

    def most_bytes(self, user: str, client_id: str) -> float | None:
        """Return what the client may use at once without being throttled; None without a quota."""
        bound = self.bound(user, client_id)
        return None if bound is None else bound * (self._count - 1) * self._length_ms / 1000

    def charge(self, user: str, client_id: str, size: int, now_ms: float) -> int:
        """Count `size` bytes that the client used; return for how many ms it must be muted."""
        found = self._find(user, client_id)
        if found is None:
            return 0
        owner, bound = found
        rate = self._rate(owner, now_ms)
        rate.add(size, now_ms)
        throttle_ms = self._throttle_ms(rate, bound, now_ms)
        return self.record_throttle(throttle_ms) if throttle_ms else 0

    def admit(self, user: str, client_id: str, size: int, now_ms: float) -> int:
        """Count `size` bytes for the client and return 0, or if they exceed its quota count nothing and return the ms to mute it.

        A client that got nothing for a whole window is always admitted: a batch may be larger than all that its quota allows, and
        would never be delivered.
        """
        found = self._find(user, client_id)
        if found is None:
            return 0
        owner, bound = found
        rate = self._rate(owner, now_ms)
        was_idle = rate.is_idle(now_ms)
        rate.add(size, now_ms)
        throttle_ms = rate.throttle_ms(bound, now_ms)
        if was_idle or not throttle_ms:
            return 0
        rate.add(-size, now_ms)
        return self.record_throttle(throttle_ms)

    def _throttle_ms(self, rate: ClientRate, bound: float, now_ms: float) -> int:
        return rate.throttle_ms(bound, now_ms)

    def _rate(self, owner: tuple[str, str], now_ms: float) -> ClientRate:
        rate = self._rates.get(owner)
        if rate is None:
            if len(self._rates) >= self._purge_at:
                self._rates = {kept: each for kept, each in self._rates.items() if not each.is_idle(now_ms)}
                self._purge_at = max(_LEAST_BEFORE_PURGE, 2 * len(self._rates))
            rate = self._rates[owner] = ClientRate(self._count, self._length_ms)
        return rate


def _candidates(user: str, client_id: str) -> Iterator[tuple[Name, Name]]:
    if not client_id:
        yield user, None
        yield DEFAULT, None
        return
    for who in (user, DEFAULT):
        yield who, client_id
        yield who, DEFAULT
        yield who, None
    yield None, client_id
    yield None, DEFAULT


class ConnectionRateQuota(ByteRateQuota):
    """The connections a second that an address may open (KIP-612): its own quota, or the default of all. Names of hosts match nobody."""

    def take(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> None:
        if entity.ip is not None:
            super().take(QuotaEntity(user=entity.ip), quotas)

    def hold_ms(self, address: str, now_ms: float) -> int:
        """Count a connection; return for how many ms nothing is to be read from it."""
        return self.charge(address, "", 1, now_ms) if self.is_set else 0


class RequestTimeQuota(ByteRateQuota):
    """The part of the event loop's time that requests may take, in percent (KIP-124). Its `size` is in ns.

    As in Kafka nobody is silenced for longer than one sample: what one dear request takes is spread over several that follow.
    """

    def __init__(self, count: int, length_ms: float) -> None:
        super().__init__(REQUEST_PERCENTAGE, count, length_ms)
        self.on_change: Callable[[bool], None] = lambda is_set: None
        """Called with `is_set` when that has changed."""

    def take(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> None:
        was_set = self.is_set
        super().take(entity, {key: value * _NS_OF_A_PERCENT for key, value in quotas.items()})
        if self.is_set != was_set:
            self.on_change(self.is_set)

    def _throttle_ms(self, rate: ClientRate, bound: float, now_ms: float) -> int:
        return min(rate.throttle_ms(bound, now_ms), int(self._length_ms))


class Mutations:
    """The partitions that one request creates and deletes, charged to its client, and the throttle time that follows."""

    def __init__(self, quota: MutationQuota, bucket: TokenBucket, now_ms: Callable[[], float], is_strict: bool) -> None:
        self._quota, self._bucket, self._now_ms, self._is_strict = quota, bucket, now_ms, is_strict
        self._silent_until_ms = 0.0

    def charge(self, partitions: int) -> None:
        """Count partitions that are to be created or deleted. Raises KafkaError THROTTLING_QUOTA_EXCEEDED if they may not be."""
        now_ms, bucket = self._now_ms(), self._bucket
        if not self._is_strict:
            bucket.take(partitions)
        left = bucket.count_tokens(now_ms)
        if left < 0:
            self._silent_until_ms = now_ms + round(-left / max(bucket.per_s, 1e-3) * 1000)
            if self._is_strict:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        elif self._is_strict:
            bucket.take(partitions)

    def throttle_ms(self) -> int:
        """Return for how many ms the client is muted, once the request has been carried out."""
        left_ms = round(self._silent_until_ms - self._now_ms())
        return self._quota.record_throttle(left_ms) if left_ms > 0 else 0


class MutationQuota(ClientQuota):
    """The partitions that a client may create and delete in a second (KIP-599), as Kafka's `ControllerMutationQuotaManager` counts them.

    Who has tokens left may use more, and is in debt then. While there is a debt, requests of versions that know it are
    refused (THROTTLING_QUOTA_EXCEEDED), older ones are carried out; both are silenced for as long as it takes to be paid. `burst_s`:
    the length of all samples together.
    """

    def __init__(self, burst_s: float) -> None:
        super().__init__(CONTROLLER_MUTATION_RATE)
        self._burst_s = burst_s
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self._purge_at = _LEAST_BEFORE_PURGE

    def of(self, user: str, client_id: str, now_ms: Callable[[], float], *, is_strict: bool) -> Mutations | None:
        """Return the quota that a request of this client is charged to; None where the client has none."""
        found = self._find(user, client_id) if self.is_set else None
        if found is None:
            return None
        owner, per_s = found
        bucket = self._buckets.get(owner)
        if bucket is None:
            if len(self._buckets) >= self._purge_at:
                self._buckets = {kept: each for kept, each in self._buckets.items() if not each.is_full(now_ms())}
                self._purge_at = max(_LEAST_BEFORE_PURGE, 2 * len(self._buckets))
            bucket = self._buckets[owner] = TokenBucket(per_s, self._burst_s, now_ms())
        bucket.per_s = per_s
        return Mutations(self, bucket, now_ms, is_strict)


class ClientQuotas:
    """The usage of all clients: bytes `produced` and `fetched`, time of `requests`, `mutations` of topics, connections `opened`.

    `window` is quota.window.num and .size.seconds, `mutation_window` likewise of controller.quota.window.
    """

    def __init__(self, window: tuple[int, int] = (11, 1), mutation_window: tuple[int, int] = (11, 1)) -> None:
        window_count, length_ms = window[0], window[1] * 1000.0
        self.produced = ByteRateQuota(PRODUCER_BYTE_RATE, window_count, length_ms)
        self.fetched = ByteRateQuota(CONSUMER_BYTE_RATE, window_count, length_ms)
        self.requests = RequestTimeQuota(window_count, length_ms)
        self.mutations = MutationQuota(mutation_window[0] * mutation_window[1])
        self.opened = ConnectionRateQuota(CONNECTION_CREATION_RATE, window_count, length_ms)
        self.by_kind: Final[Mapping[str, ClientQuota]] = {
            "produce": self.produced,
            "fetch": self.fetched,
            "request": self.requests,
            "controller_mutation": self.mutations,
            "connection": self.opened,
        }

    def take(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> None:
        """Replace the quotas of an entity; an empty mapping takes all away."""
        for quota in self.by_kind.values():
            quota.take(entity, quotas)
