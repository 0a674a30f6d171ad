"""Records of requests as a gateway would have filled them in."""

from typing import Any

from observability.record import RequestRecord, TraceContext

TRACE = bytes.fromhex("0af7651916cd43dd8448eb211c80319c")
PARENT = bytes.fromhex("b7ad6b7169203331")
SPAN = bytes.fromhex("00f067aa0ba902b7")
#: When requests here arrived, in seconds since 1970.
WALL = 1_700_000_000.0


def record_of(**fields: Any) -> RequestRecord:
    """A streamed answer, with a stage after each millisecond; nobody has asked for its trace."""
    stages = ("identified", "screened", "encoded", "reserved", "admitted", "sent")
    known: dict[str, Any] = {name: 100.0 + at / 1000 for at, name in enumerate(stages, 1)}
    known |= {"id": "req_1", "endpoint": "chat", "arrived": 100.0, "wall": WALL}
    known |= {"first_token": 100.1, "last_token": 101.0, "ended": 101.25, "stream": True}
    known |= {"tenant": "acme", "key_id": "key_1", "tier": "gold", "client": "192.0.2.1"}
    known |= {"model": "mixtral", "asked_model": "mixtral", "pool": "wide", "replica": "wide/0"}
    known |= {"policy": "auto", "reason": "least cost", "prompt_tokens": 10, "completion_tokens": 20, "finish": "stop"}
    known |= {"engine_queue_us": 1000, "engine_prefill_us": 80_000, "engine_decode_us": 800_000}
    return RequestRecord(**(known | fields))


def sampled(**fields: Any) -> RequestRecord:
    """One that its client wants traced."""
    return record_of(trace=TraceContext(TRACE, PARENT, 1, "vendor=1"), span_id=SPAN, sampled=True, **fields)
