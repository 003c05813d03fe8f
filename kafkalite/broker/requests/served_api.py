"""One API as the broker serves it: versions, handler, the shape of its failure and the permissions that it needs, side by side.

Each module of `handlers` has its records in `APIS`; dispatch and ApiVersions are derived from all of them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, Never, TypeAlias, TypeVar

from kafkalite.broker.identity.authorizer import Authorizer, Permission, ResourceType
from kafkalite.broker.requests.failures import Failure, fail_whole_request
from kafkalite.broker.requests.guards import Guard, Handle, guard_handler
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.errors import ErrorCode, ensure
from kafkalite.protocol import messages
from kafkalite.protocol.apis import APIS, Api, ApiKey

if TYPE_CHECKING:
    from kafkalite.broker.produce.fast_path import FastPath
    from kafkalite.histogram import Histogram
    from kafkalite.portions import Work
    from kafkalite.protocol.messages import Message

PartsT_contra = TypeVar("PartsT_contra", contravariant=True)
RequestT = TypeVar("RequestT", bound="Message")
ResponseT = TypeVar("ResponseT", bound="Message")

Reply: TypeAlias = "Message | None"
"""None where there is no answer: Produce with acks=0."""


@dataclass(frozen=True, slots=True)
class ServedApi(Generic[PartsT_contra]):
    """One API in the versions that are served; made by `serve_api`.

    The handler gets the parts of the broker that it declares, and is a coroutine or not.
    """

    api: Api
    first_version: int
    last_version: int
    handle: Callable[[PartsT_contra, Any, RequestContext], Reply | Awaitable[Reply]]
    failure: Failure
    cluster_permission: Permission | None = None
    """The permission on the cluster that the caller needs, unless a guard or the handler decides."""
    guard: Guard | None = None
    """Authorises the names in a request."""
    fast_path: Callable[[PartsT_contra, Histogram, Authorizer], FastPath] | None = None
    """Makes what serves requests that repeat each other without the handler and its guard; latencies go into the histogram."""

    @property
    def is_async(self) -> bool:
        """True if the handler is a coroutine function."""
        return inspect.iscoroutinefunction(self.handle)

    @property
    def guarded_handle(self) -> Handle:
        """Return the handler behind the guard, for a broker with an authorizer."""
        return self.handle if self.guard is None else guard_handler(self.guard, self.handle, self.failure)


def serve_api(
    key: ApiKey,
    first_version: int,
    last_version: int,
    handle: Callable[
        [PartsT_contra, RequestT, RequestContext], ResponseT | Awaitable[ResponseT] | Awaitable[ResponseT | None] | None
    ],
    cluster_permission: Permission | None = None,
    *,
    failure: Callable[[RequestT, ErrorCode, str | None], ResponseT | Message] = fail_whole_request,
    guard: Guard | None = None,
    fast_path: Callable[[PartsT_contra, Histogram, Authorizer], FastPath] | None = None,
) -> ServedApi[PartsT_contra]:
    """Return an API in these versions, which the codec must know. `failure(request, code, message)` is the reply when all of it failed."""
    api = APIS[key]
    ensure(
        api.min_version <= first_version <= last_version <= api.max_version,
        f"{key.name} {first_version} to {last_version}: the codec knows {api.min_version} to {api.max_version}",
    )
    ensure(
        cluster_permission is None or (guard is None and cluster_permission.resource is ResourceType.CLUSTER),
        f"{key.name}: dispatch checks a permission of the cluster, a guard all others",
    )
    return ServedApi(api, first_version, last_version, handle, failure, cluster_permission, guard, fast_path)


def run_in_portions(
    work: Callable[[PartsT_contra, RequestT, RequestContext], Work[ResponseT]],
) -> Callable[[PartsT_contra, RequestT, RequestContext], ResponseT | asyncio.Future[ResponseT]]:
    """Return the handler that carries out this work: at once if it is little, else in portions."""

    @wraps(work)
    def handle(
        parts: PartsT_contra, request: RequestT, context: RequestContext
    ) -> ResponseT | asyncio.Future[ResponseT]:
        return context.portions.run(work(parts, request, context))

    return handle


class Audience(Enum):
    """Who asks for the APIs that are served; each is told of those of the one before, too."""

    EVERYBODY = 0
    CLIENTS = 1
    """Clients of kafkalite."""
    BROKERS = 2
    """Brokers of kafkalite, on the inter-broker listener."""


def spoken_of(
    served: Iterable[ServedApi[Never]], audience: Audience = Audience.EVERYBODY
) -> messages.ApiVersionsResponse:
    """Return the response of ApiVersions to this audience: every API that is served, with its versions; private ones only where they are
    for the audience.

    It is made once, being the same for all of an audience.
    """
    m = messages.api_versions_response
    keys = [
        m.ApiVersion(api_key=each.api.key, min_version=each.first_version, max_version=each.last_version)
        for each in sorted(served, key=lambda each: each.api.key)
        if audience is Audience.BROKERS
        or not each.api.is_private
        or (audience is Audience.CLIENTS and not each.api.is_for_brokers)
    ]
    return m.ApiVersionsResponse(api_keys=keys)
