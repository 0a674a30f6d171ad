"""Shapes as their controller might tell of them, for tests of what is shown."""

from collections.abc import Sequence
from typing import Any

from gateway.reshaping.change import (
    Advice,
    Change,
    Event,
    GroupStatus,
    MemberStatus,
    ModelShapes,
    ParticipantRecord,
    ReshapeDemand,
    Totals,
    WidthStatus,
)
from gateway.reshaping.reshape_registry import ShapesView
from replicas.reshape.host_group import spans_of

#: When the first event happened, and when the page is looked at.
BEGAN = 1_800_000_000.0
NOW = BEGAN + 600.0
MODEL = "qwen2.5-32b"
REASON = "a request of 120000 tokens waits for a TP4 replica"


def event(seconds: float, phase: Any, /, **fields: Any) -> Event:
    """An event so many seconds after the first one."""
    known: dict[str, Any] = {"at": BEGAN + seconds, "model": MODEL, "group": "host-a", "phase": phase, "change": 1}
    known |= {"before": (1, 1, 1, 1), "after": (4,), "actor": "policy", "reason": REASON}
    return Event(**(known | fields))


BACK: dict[str, Any] = {"change": 2, "before": (4,), "after": (1, 1, 1, 1), "actor": "cli:root", "order": "o"}
#: Wider, narrower by an operator, and a change that fails; a decision that was told, and an order that was refused.
EVENTS = (
    event(0, "advised", change=0, reason=f"TP4 would be better: {REASON}"),
    event(60, "preparing"),
    event(60.4, "transforming"),
    event(61.2, "done", seconds=1.2),
    event(200, "preparing", **BACK, reason="cli:root has ordered it"),
    event(200.3, "transforming", **BACK, reason="cli:root has ordered it"),
    event(201, "done", **BACK, reason="cli:root has ordered it", seconds=1.0),
    event(300, "refused", change=0, actor="admin-api:console", reason="r1 runs a request of 90000 KV tokens"),
    event(400, "preparing", change=3),
    event(405, "aborting", change=3, reason="grpc://a2 does not answer"),
    event(406, "failed", change=3, reason="grpc://a2 does not answer", seconds=6.0),
)


def change(phase: Any, /, **fields: Any) -> Change:
    """A change of `host-a` from four narrow replicas to a wide one."""
    known: dict[str, Any] = {"id": 4, "model": MODEL, "group": "host-a", "before": (1, 1, 1, 1), "after": (4,)}
    known |= {"phase": phase, "reason": REASON, "actor": "policy", "started": NOW - 12, "since": NOW - 8}
    known |= {"participants": [ParticipantRecord(address=f"grpc://a{gpu}", gpu=gpu, epoch=1) for gpu in range(4)]}
    return Change(**(known | fields))


def group(name: str = "host-a", shape: Sequence[int] = (1, 1, 1, 1), **fields: Any) -> GroupStatus:
    """A group whose engines can be TP1, TP2 and TP4."""
    gpus = sum(shape)
    states = fields.pop("states", ("serving",) * gpus)  # None: a replica that is not heard
    known: dict[str, Any] = {"group": name, "gpus": gpus, "method": "in_place", "shape": shape}
    spans = [span for span in spans_of(shape) for _ in range(span.width)]
    known["members"] = [
        MemberStatus(
            address=f"grpc://a{gpu}",
            gpu=gpu,
            start=span.start,
            width=span.width,
            state=states[gpu],
            leads=span.start == gpu,
        )
        for gpu, span in enumerate(spans)
        if states[gpu] is not None
    ]
    known["widths"] = [
        WidthStatus(width=width, kv_tokens=54_000 * width, change_ms=300) for width in (1, 2, 4, 8) if width <= gpus
    ]
    return GroupStatus(**(known | fields))


def model(*groups: GroupStatus, **fields: Any) -> ModelShapes:
    """A model with these groups, for which long requests wait."""
    demand = ReshapeDemand(short_rate=12.5, long_rate=0.02, waiting=3, longest=120_000, oldest_wait=4.0)
    known: dict[str, Any] = {"model": MODEL, "mode": "apply", "groups": groups, "demand": demand}
    return ModelShapes(**(known | {"totals": Totals(done=2, failed=1, refused=1)} | fields))


def advice() -> Advice:
    """A wide replica that would be made now."""
    return Advice(group="host-a", before=(1, 1, 1, 1), after=(4,), reason=REASON, gpu_seconds=1.2)


def view(*models: ModelShapes, **fields: Any) -> ShapesView:
    """Models whose shapes a controller has just told of."""
    known: dict[str, Any] = {"age_seconds": 0.4, "controller": "host-7:4711", "models": models}
    return ShapesView(**(known | fields))
