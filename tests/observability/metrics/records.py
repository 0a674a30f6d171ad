"""Ended requests, as the request path would have filled them in."""

from typing import Any

from observability.gaps import BOUNDS
from observability.metrics.metrics_sink import MetricsSink
from observability.metrics.snapshot import Numbers, Snapshot
from observability.metrics.tenant_series import TenantNames
from observability.record import RequestRecord

POOLS = {"m": ["wide", "narrow"], "m2": ["p"], "q:7b": ["p"]}
TIERS = ["gold", "standard"]


def record(**fields: Any) -> RequestRecord:
    """A streamed answer of 5 tokens after 0.5 s of everything."""
    gaps = [0] * (len(BOUNDS) + 1)
    gaps[3] = 4
    given: dict[str, Any] = {
        "id": "req_1",
        "endpoint": "chat",
        "arrived": 100.0,
        "wall": 1e9,
        "reserved": 100.125,
        "admitted": 100.25,
        "sent": 100.5,
        "first_token": 101.0,
        "last_token": 102.0,
        "ended": 102.25,
        "tenant": "acme",
        "tier": "gold",
        "model": "m",
        "pool": "wide",
        "replica": "wide/0",
        "stream": True,
        "prompt_tokens": 100,
        "cached_tokens": 40,
        "predicted_tokens": 64,
        "completion_tokens": 5,
        "reasoning_tokens": 2,
        "cost_nano_usd": 2_000_000_000,
        "gaps": gaps,
        "gap_seconds": 0.0375,
    }
    return RequestRecord(**(given | fields))


def sink_of(tenants: int = 200) -> MetricsSink:
    return MetricsSink(POOLS, TIERS, TenantNames(tenants))


def placed(sink: MetricsSink, *names: str) -> MetricsSink:
    """Give all that wait a place of their own, or those alone that are named."""
    wanted = sink.tenants.wanted()
    sink.settle(wanted, names or (*wanted.placed, *wanted.pending))
    return sink


def numbers_of(sink: MetricsSink) -> Numbers:
    numbers = Numbers()
    sink.collect(numbers)
    return numbers


def snapshot_of(numbers: Numbers, **fields: Any) -> Snapshot:
    given: dict[str, Any] = {
        "worker": "w",
        "pid": 1,
        "parent": 2,
        "workers": 1,
        "started": 1000.0,
        "written": 100.0,
        "values": numbers.values,
        "distributions": numbers.distributions,
    }
    return Snapshot(**(given | fields))
