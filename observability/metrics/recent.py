"""Describe recent requests for the live views of a running gateway."""

from typing import Any, Final

from observability.printable import printable
from observability.record import RequestRecord

_LONGEST: Final = 240


def failed_view(record: RequestRecord) -> dict[str, Any]:
    """Describe a failed request. `time` is in seconds since 1970, `detail` is for operators alone."""
    return {
        "kind": "failed",
        **_common(record),
        "tenant": record.tenant,
        "outcome": record.outcome.value,
        "code": record.code,
        "detail": printable(record.detail[:_LONGEST]),
    }


def routed_view(record: RequestRecord) -> dict[str, Any]:
    """Describe a request that reached a replica. `ttft`, in seconds, is 0 where there was no token."""
    return {
        "kind": "routed",
        **_common(record),
        "policy": record.policy,
        "reason": record.reason,
        "ttft": max(0.0, record.first_token - record.arrived) if record.first_token else 0.0,
        "cached": record.cached_tokens,
        "predicted": record.predicted_tokens,
    }


def _common(record: RequestRecord) -> dict[str, Any]:
    return {
        "time": record.wall,
        "id": record.id,
        "model": record.model,
        "pool": record.pool,
        "replica": record.replica,
        "seconds": max(0.0, record.ended - record.arrived),
    }
