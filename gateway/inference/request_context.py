"""What one request runs with, beside itself: limits, the encoder's turns, its time, and the handle that ends it."""

import msgspec

from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.tenancy.limits.limiter import Limiter
from routing.contracts.explained_policy import ExplainedPolicy
from routing.dispatch.dispatch import RequestHandle


class RequestContext(msgspec.Struct, frozen=True):
    """A request waits for admission until `wait_until` and must have ended at `deadline`, both on the monotonic clock.

    `attempt.fail` ends it from outside at any moment; `explained` notes why it goes where it goes.
    """

    limiter: Limiter
    encoding: EncodingQueue
    handle: RequestHandle
    wait_until: float
    deadline: float
    explained: ExplainedPolicy | None = None
