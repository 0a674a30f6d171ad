"""What the end of an attempt says of the replica that made it."""

import enum

from protos.errors import ClientError, ClientGone, DeadlineExceeded, ReplicaFailed, SlowClient


class Outcome(enum.Enum):
    """For the breaker: a client's mistake that the engine has found speaks for the engine, load against nobody."""

    SUCCESS = "success"
    FAULT = "fault"
    NEITHER = "neither"


def outcome_of(error: BaseException, *, stepping: bool) -> Outcome:
    """How an attempt that ended with `error` counts. `stepping`: the engine has lately made steps, or had no time to.

    A replica that is lost, drains or has its streams taken away (ReplicaUnavailable) is known as such from its session,
    once and not for each of its requests. A deadline that passed while the engine was at work is load.
    """
    if isinstance(error, ReplicaFailed):
        return Outcome.FAULT
    if isinstance(error, DeadlineExceeded):
        return Outcome.NEITHER if stepping else Outcome.FAULT
    if isinstance(error, ClientError) and not isinstance(error, ClientGone | SlowClient):
        return Outcome.SUCCESS
    return Outcome.NEITHER
