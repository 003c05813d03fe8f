"""One API as the broker serves it: versions, handler, the shape of its failure and the permissions that it needs, side by side.

Each module of `handlers` has its records in `APIS`; dispatch and ApiVersions are derived from all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
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
    permissions: tuple[Permission, ...]
    guard: Guard | None = None
    """What authorises the names in a request."""
    fast_path: Callable[[PartsT_contra, Histogram, Authorizer], FastPath] | None = None
    """Makes what serves requests that repeat each other without the handler and its guard; latencies go into the histogram."""
    is_async: bool = field(init=False)
    cluster_permission: Permission | None = field(init=False)
    """What the caller must be allowed on the cluster, where nothing else decides."""

    def __post_init__(self) -> None:
        only = self.permissions[0] if len(self.permissions) == 1 else None
        of_cluster = only is not None and only.resource is ResourceType.CLUSTER
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.handle))
        object.__setattr__(self, "cluster_permission", only if of_cluster and self.guard is None else None)

    @property
    def guarded_handle(self) -> Handle:
        """The handler where requests are authorised."""
        return self.handle if self.guard is None else guard_handler(self.guard, self.handle, self.failure)


def serve_api(
    key: ApiKey,
    first_version: int,
    last_version: int,
    handle: Callable[
        [PartsT_contra, RequestT, RequestContext], ResponseT | Awaitable[ResponseT] | Awaitable[ResponseT | None] | None
    ],
    *permissions: Permission,
    failure: Callable[[RequestT, ErrorCode, str | None], ResponseT | Message] = fail_whole_request,
    guard: Guard | None = None,
    fast_path: Callable[[PartsT_contra, Histogram, Authorizer], FastPath] | None = None,
) -> ServedApi[PartsT_contra]:
    """An API in these versions, which the codec must know. `failure(request, code, message)` is the reply when all of it failed."""
    api = APIS[key]
    ensure(
        api.min_version <= first_version <= last_version <= api.max_version,
        f"{key.name} {first_version} to {last_version}: the codec knows {api.min_version} to {api.max_version}",
    )
    return ServedApi(api, first_version, last_version, handle, failure, permissions, guard, fast_path)


def spoken_of(served: Iterable[ServedApi[Never]]) -> messages.ApiVersionsResponse:
    """What ApiVersions answers: every API that is served, with its versions. The same for everybody, so it is made once."""
    m = messages.api_versions_response
    keys = [
        m.ApiVersion(api_key=each.api.key, min_version=each.first_version, max_version=each.last_version)
        for each in sorted(served, key=lambda each: each.api.key)
    ]
    return m.ApiVersionsResponse(api_keys=keys)
