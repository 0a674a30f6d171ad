"""Looks and what they are made of, for tests."""

from typing import Any

import msgspec

from gateway.admin.live.live_snapshot import PoolFacts, SnapshotInputs
from gateway.admin.live.totals import Histogram, Totals, growth
from gateway.fleets.listing import ReplicaView, ShapeView
from protos.types import Role

BOUNDS = (0.1, 1.0, 10.0)
SHAPE = ShapeView(tp=2, ep=1, pp=1)
POOL = PoolFacts("m", "p", SHAPE, Role.BOTH)


def totals(at: float, factor: float = 1.0) -> Totals:
    """Counts that grow with the factor: of 10 requests, two are not ok."""
    return Totals(
        at=at,
        requests={
            ("m", "acme", "ok"): 8 * factor,
            ("m", "acme", "limited"): factor,
            ("m", "globex", "replica_error"): factor,
        },
        tokens={
            ("m", "acme", "input"): 100 * factor,
            ("m", "acme", "cached"): 20 * factor,
            ("m", "acme", "output"): 60 * factor,
            ("m", "acme", "reasoning"): 5 * factor,
            ("m", "acme", "rejected"): 1000 * factor,
        },
        request_seconds={
            ("m", "p"): Histogram(BOUNDS, (0.0, 9 * factor, 0.0, 0.0)),
            ("m", "-"): Histogram(BOUNDS, (factor, 0.0, 0.0, 0.0)),
        },
        first_token_seconds={("m", "p"): Histogram(BOUNDS, (9 * factor, 0.0, 0.0, 0.0))},
        in_flight=7.0,
        queued={"m": 2.0},
    )


def replica(**fields: Any) -> ReplicaView:
    row = ReplicaView(
        model="m",
        pool="p",
        id="p/0",
        address="grpc://10.0.0.1:1",
        source="static",
        version="",
        shape=SHAPE,
        role=Role.BOTH,
        group=None,
        state="ready",
        reason="",
        workers=1,
        running=3,
        waiting=1,
        kv_blocks_used=50,
        kv_blocks_total=100,
        in_flight=4,
        share=1.0,
        breaker_seconds=0.0,
        accuracy=None,
        drain=None,
    )
    return msgspec.structs.replace(row, **fields)


def seen(**fields: Any) -> SnapshotInputs:
    """Ten seconds in which ten requests a second ended."""
    late = totals(20.0, 11.0)
    values: dict[str, Any] = {
        "time": 1000.0,
        "totals": late,
        "growth": growth(totals(10.0), late),
        "pools": [POOL],
        "replicas": [replica()],
        "tiers": {"acme": "gold", "globex": None},
        "scopes": {},
        "errors": [],
        "routes": [],
        "problems": [],
    }
    return SnapshotInputs(**(values | fields))
