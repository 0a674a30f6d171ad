"""Parse, write and forward W3C Trace Context, level 1 (https://www.w3.org/TR/trace-context-1/). Pure."""

import re
from collections.abc import Sequence
from typing import Final

from observability.record import RequestRecord, TraceContext

SAMPLED: Final = 1
#: version-trace id-parent id-flags. Later versions may have more after a dash.
_PARENT: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_KEY: Final = rb"(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
_MEMBER: Final = re.compile(rb"(" + _KEY + rb")=[ -+\--<>-~]{0,255}[!-+\--<>-~]")
_MOST_MEMBERS: Final = 32
#: Characters of a state that are forwarded at least, and the length above which members are dropped first (section
#: 3.3.1.5).
_STATE_CHARACTERS: Final = 512
_LONG_MEMBER: Final = 128
#: Bytes of a state that are parsed at most.
_MOST_BYTES: Final = 8192
_NO_TRACE: Final = bytes(16)
_NO_PARENT: Final = bytes(8)


def parse(parent: bytes, states: Sequence[bytes] = ()) -> TraceContext | None:
    """Parse the headers `traceparent` and `tracestate`; None where the first one is not valid.

    The latter may come several times. An invalid one counts as none.
    """
    match = _PARENT.fullmatch(parent.strip(b" \t"))
    if match is None:
        return None
    version, trace_id, parent_id, flags, more = match.groups()
    if version == b"ff" or (version == b"00" and more is not None):
        return None
    context = TraceContext(
        bytes.fromhex(trace_id.decode()), bytes.fromhex(parent_id.decode()), int(flags, 16) & SAMPLED, _state(states)
    )
    return None if context.trace_id == _NO_TRACE or context.parent_id == _NO_PARENT else context


def _state(states: Sequence[bytes]) -> str:
    joined = b",".join(states)
    if not joined or len(joined) > _MOST_BYTES:
        return ""
    members = [member for each in joined.split(b",") if (member := each.strip(b" \t"))]
    keys = set()
    for member in members:
        match = _MEMBER.fullmatch(member)
        if match is None:
            return ""
        keys.add(match[1])
    if len(members) > _MOST_MEMBERS or len(keys) != len(members):
        return ""
    if _length(members) > _STATE_CHARACTERS:
        members = [member for member in members if len(member) <= _LONG_MEMBER]
    while _length(members) > _STATE_CHARACTERS:
        members.pop()
    return b",".join(members).decode()


def _length(members: Sequence[bytes]) -> int:
    return sum(map(len, members)) + max(0, len(members) - 1)


def context_to_send(record: RequestRecord) -> str:
    """Return `Submit.trace` for a request: the values of both headers with a blank between them, without the second
    where
    there is no state. Empty where it is not sampled.

    Where this gateway makes no spans, the next hop gets the client's span as its parent.
    """
    context = record.trace
    if not record.sampled or context is None:
        return ""
    parent = f"00-{context.trace_id.hex()}-{(record.span_id or context.parent_id).hex()}-{context.flags:02x}"
    return f"{parent} {context.state}" if context.state else parent


def trace_headers(trace: str) -> dict[str, str]:
    """Return the headers, or metadata, that carry `Submit.trace`; none if it is empty."""
    if not trace:
        return {}
    parent, _, state = trace.partition(" ")
    return {"traceparent": parent, "tracestate": state} if state else {"traceparent": parent}


def received_trace(parent: str, state: str = "") -> str:
    """Return `Submit.trace` from a server's received metadata; empty where that is not valid or not sampled."""
    if not parent:
        return ""
    context = parse(parent.encode("latin-1", "replace"), [state.encode("latin-1", "replace")] if state else [])
    if context is None or not context.flags & SAMPLED:
        return ""
    told = f"00-{context.trace_id.hex()}-{context.parent_id.hex()}-{context.flags:02x}"
    return f"{told} {context.state}" if context.state else told
