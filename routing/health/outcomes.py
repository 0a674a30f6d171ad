"""Classifies how an attempt ended, for the replica's circuit breaker."""

import enum

from protos.errors import ClientError, ClientGone, DeadlineExceeded, ReplicaFailed, SlowClient, UpstreamRefuses


class Outcome(enum.Enum):
    """The outcome of an attempt. A client's error that the engine found is a success; load counts neither way."""

    SUCCESS = "success"
    FAULT = "fault"
    NEITHER = "neither"


def outcome_of(error: BaseException, *, stepping: bool) -> Outcome:
    """Return the outcome of an attempt that ended with `error`. `stepping`: the engine stepped lately or had no time.

    ReplicaUnavailable (lost, draining, or its streams were moved) is counted once by the session and not for each
    request. A deadline that passed while the engine was stepping is load. What an upstream refuses may be one client's
    prompt, so its transport judges it (routing/health/refusals.py).
    """
    if isinstance(error, UpstreamRefuses):
        return Outcome.NEITHER
    if isinstance(error, ReplicaFailed):
        return Outcome.FAULT
    if isinstance(error, DeadlineExceeded):
        return Outcome.NEITHER if stepping else Outcome.FAULT
    if isinstance(error, ClientError) and not isinstance(error, ClientGone | SlowClient):
        return Outcome.SUCCESS
    return Outcome.NEITHER
