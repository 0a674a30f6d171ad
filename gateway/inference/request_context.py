"""The context of one request: limiter, encoding queue, time limits and handle."""

import msgspec

from gateway.models.asking import Asking
from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.tenancy.limits.limiter import Limiter
from routing.contracts.explained_policy import ExplainedPolicy
from routing.dispatch.dispatch import RequestHandle


class RequestContext(msgspec.Struct, frozen=True):
    """Everything a request runs with; it may wait for admission until `wait_until` and must end by `deadline`.

    Both times are on the monotonic clock. `handle.fail` ends the request from outside at any moment; `explained`
    records the reasons of the routing decision. A model's versions ask `asking` by what they divide requests; without
    it the stable version answers.
    """

    limiter: Limiter
    encoding: EncodingQueue
    handle: RequestHandle
    wait_until: float
    deadline: float
    explained: ExplainedPolicy | None = None
    asking: Asking | None = None
