"""The time that handlers take counts for request_percentage; who takes too much is silenced (KIP-124)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.broker.requests.request_metering import RequestMetering
from kafkalite.broker.requests.served_api import ServedApi, serve_api
from kafkalite.broker.settings.quotas import REQUEST_PERCENTAGE, ClientQuotas, QuotaEntity
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.portions import PORTION_UNITS, Work
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.memory_parts import FakeConnection

m = messages.describe_cluster_response
ONE_PERCENT = QuotaEntity(client_id="me")


class Setup:
    """A dispatcher whose handlers take what they add to `now_ms`, and a client with one percent of a window of 10 s: 100 ms."""

    def __init__(self, *handlers: ServedApi[Any]) -> None:
        self.now_ms = 1000.0
        self.quotas = ClientQuotas()
        metering = RequestMetering(self.quotas.requests, lambda: self.now_ms)
        self.dispatcher = Dispatcher(SimpleNamespace(), handlers)
        self.quotas.requests.on_change = lambda is_set: self.dispatcher.run_within(metering.around if is_set else None)
        self.quotas.take(ONE_PERCENT, {REQUEST_PERCENTAGE: 1.0})
        self.connection = FakeConnection()

    async def ask(self, request: Any = None, version: int = 1) -> Any:
        request = request or messages.describe_cluster_request.DescribeClusterRequest()
        api = request.API
        frame = b"".join(request_frame(api, version, 7, "me", codec.encode_request(request, version)))
        answer = self.dispatcher.handle(memoryview(bytearray(frame))[4:], self.connection)
        if isinstance(answer, asyncio.Future):
            answer = await answer
        body = b"".join(answer or ())[4:]
        return codec.decode_response(api.key, version, body, response_body_position(api, version, body))

    def takes(self, *steps_ms: float, problem: Exception | None = None, kind: str = "sync") -> ServedApi[Any]:
        """A handler whose steps take so long, with a second between them."""
        reply = m.DescribeClusterResponse(cluster_id="c")

        def step(duration_ms: float) -> None:
            self.now_ms += duration_ms

        def sync(parts: Any, request: Any, context: Any) -> Any:
            for each in steps_ms:
                step(each)
            if problem is not None:
                raise problem
            return reply

        async def coroutine(parts: Any, request: Any, context: Any) -> Any:
            for each in steps_ms:
                step(each)
                asyncio.get_running_loop().call_later(0.5, step, 1000)  # while others have their turn
                await asyncio.sleep(1)
            if problem is not None:
                raise problem
            return reply

        def portions(parts: Any, request: Any, context: Any) -> Any:
            def work() -> Work[Any]:
                for each in steps_ms:
                    step(each)
                    for _ in range(PORTION_UNITS):
                        yield
                return reply

            return context.portions.run(work())

        return serve_api(
            ApiKey.DESCRIBE_CLUSTER, 0, 1, {"sync": sync, "coroutine": coroutine, "portions": portions}[kind]
        )


def play(setup: Setup, handler: ServedApi[Any], times: int = 1) -> Any:
    """The last answer."""
    setup.__init__(handler)  # type: ignore[misc]

    async def run() -> Any:
        for _ in range(times):
            answer = await setup.ask()
        return answer

    return virtual_time.run(run())


@pytest.fixture
def setup() -> Setup:
    return Setup()


@pytest.mark.parametrize("kind", ["sync", "coroutine", "portions"])
def test_who_takes_too_long_is_silenced_until_the_rate_has_fallen(setup: Setup, kind: str) -> None:
    answer = play(setup, setup.takes(60, 42, kind=kind))
    assert (answer.cluster_id, answer.throttle_time_ms) == ("c", 200), "2 ms too much, at 10 ms in a second"
    assert setup.connection.muted_s == [0.2]
    assert (setup.quotas.requests.throttled, setup.quotas.requests.throttled_ms) == (1, 200)


@pytest.mark.parametrize("kind", ["sync", "coroutine", "portions"])
def test_what_is_within_the_quota_is_not_silenced(setup: Setup, kind: str) -> None:
    assert play(setup, setup.takes(60, 40, kind=kind)).throttle_time_ms == 0
    assert not setup.connection.muted_s


def test_nobody_is_silenced_for_longer_than_a_sample(setup: Setup) -> None:
    assert play(setup, setup.takes(1000)).throttle_time_ms == 1000


@pytest.mark.parametrize("kind", ["sync", "coroutine"])
def test_what_fails_counts_too(setup: Setup, kind: str) -> None:
    answer = play(setup, setup.takes(101, problem=KafkaError(ErrorCode.NOT_CONTROLLER, "not here"), kind=kind))
    assert (answer.error_code, answer.error_message) == (ErrorCode.NOT_CONTROLLER, "not here")
    assert setup.connection.muted_s == [0.1]
    assert answer.throttle_time_ms == 100


def test_a_reply_that_is_made_once_for_everybody_stays_as_it_is(setup: Setup) -> None:
    shared = m.DescribeClusterResponse()

    def handler(parts: Any, request: Any, context: Any) -> Any:
        setup.now_ms += 60
        return shared

    assert play(setup, serve_api(ApiKey.DESCRIBE_CLUSTER, 0, 1, handler), times=2).throttle_time_ms == 1000
    assert shared.throttle_time_ms == 0


def test_without_a_quota_handlers_run_as_they_are(setup: Setup) -> None:
    handler = setup.takes(500)
    plain = Setup(handler)
    plain.quotas.take(ONE_PERCENT, {})
    assert [route.handle for route in plain.dispatcher._routes.values()] == [handler.handle]
    assert virtual_time.run(plain.ask()).throttle_time_ms == 0


def test_what_brokers_ask_of_each_other_is_exempt(setup: Setup) -> None:
    def handler(parts: Any, request: Any, context: Any) -> Any:
        setup.now_ms += 500
        return messages.fetch_response.FetchResponse()

    fetch = messages.fetch_request.FetchRequest
    setup.__init__(serve_api(ApiKey.FETCH, 0, 17, handler))  # type: ignore[misc]
    assert virtual_time.run(setup.ask(fetch(replica_id=2), 11)).throttle_time_ms == 0
    assert virtual_time.run(setup.ask(fetch(replica_id=-1), 11)).throttle_time_ms == 1000
    stop = serve_api(ApiKey.STOP_REPLICA, 0, 4, lambda *_: None)
    assert RequestMetering(setup.quotas.requests, lambda: 0.0).around(stop, stop.handle) is stop.handle


def test_a_request_whose_client_leaves_ends_and_counts(setup: Setup) -> None:
    async def scenario() -> None:
        asked = asyncio.ensure_future(setup.ask())
        await virtual_time.settle()
        setup.dispatcher.cancel_all()
        with pytest.raises(asyncio.CancelledError):
            await asked

    setup.__init__(setup.takes(150, 150, kind="coroutine"))  # type: ignore[misc]
    virtual_time.run(scenario())
    assert setup.quotas.requests.throttled == 1


def test_brokers_are_answered_by_handlers_that_wait_while_there_is_a_quota(setup: Setup) -> None:
    async def handler(parts: Any, request: Any, context: Any) -> Any:
        return messages.stop_replica_response.StopReplicaResponse()

    setup.__init__(serve_api(ApiKey.STOP_REPLICA, 0, 4, handler))  # type: ignore[misc]
    assert virtual_time.run(setup.ask(messages.stop_replica_request.StopReplicaRequest(), 3)).error_code == 0
