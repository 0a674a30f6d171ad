"""Encode the journal's entries: one line of JSON each. Names and meanings are version 1 of the format.

Unknown values are left out of a line. Times but the first are microseconds after it, taken from the monotonic clock:
a clock that is set while a request runs does not break its entry.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec

from observability.outcome import Outcome
from observability.record import RequestRecord

VERSION: Final = 1
#: Entries encoded in one piece: about 0.2 ms in which no other thread runs Python.
CHUNK: Final = 64
#: Bytes per line of a chunk, on average; above it each line is encoded by itself and its texts are cut.
_LONG: Final = 4096
_MOST_CHARACTERS: Final = 512
_MOST_ITEMS: Final = 64

_ENCODER: Final = msgspec.json.Encoder()
_at = datetime.fromtimestamp

T = TypeVar("T")


class VerdictEntry(msgspec.Struct, frozen=True, gc=False):
    """The verdict of one filter rule, as in `observability.record.Verdict`."""

    rule: str
    action: str
    where: str
    label: str
    times: int


class RequestEntry(msgspec.Struct, omit_defaults=True, gc=False, tag_field="kind", tag="request"):
    """One request. Fields are those of `observability.record.RequestRecord`; `..._us` are microseconds after `time`,
    and those of the engine and of filters are durations.
    """

    schema: int
    id: str
    #: When the request arrived.
    time: datetime
    endpoint: str = ""
    outcome: Outcome | str = ""
    status: int = 0
    code: str = ""
    detail: str = ""
    tenant: str = ""
    key_id: str = ""
    tier: str = ""
    client: str = ""
    model: str = ""
    version: str = ""
    asked_model: str = ""
    stream: bool = False
    sequences: int = 0
    request_hash: str = ""
    request_bytes: int = 0
    answer_hash: str = ""
    answer_characters: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    predicted_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    rejected_tokens: int = 0
    reserved_tokens: int = 0
    cost_nano_usd: int = 0
    finish: str = ""
    pool: str = ""
    replica: str = ""
    policy: str = ""
    reason: str = ""
    retries: int = 0
    migrations: int = 0
    hedges: int = 0
    verdicts: list[VerdictEntry] = []
    identified_us: int | None = None
    screened_us: int | None = None
    encoded_us: int | None = None
    reserved_us: int | None = None
    admitted_us: int | None = None
    sent_us: int | None = None
    first_token_us: int | None = None
    last_token_us: int | None = None
    ended_us: int | None = None
    engine_queue_us: int = 0
    engine_prefill_us: int = 0
    engine_decode_us: int = 0
    filter_us: int = 0
    held_us: int = 0
    trace_id: str = ""
    shadow_of: str = ""


class ChangeEntry(msgspec.Struct, omit_defaults=True, gc=False, tag_field="kind", tag="change"):
    """One admin change; `id` and `time` are the store's, `before` and `after` are records in JSON."""

    schema: int
    id: str
    time: datetime
    actor: str = ""
    action: str = ""
    subject: str = ""
    before: Any = None
    after: Any = None


class JournalEvent(msgspec.Struct, omit_defaults=True, gc=False, tag_field="kind", tag="journal"):
    """An event of the journal itself.

    `event` is `opened` (a segment begins), `repaired` (a torn tail was cut off after a crash), `missing` (acknowledged
    blocks were not found again), `damaged` (a segment was not whole when it was removed), `lost` (records were
    dropped), `removed` (segments were removed by age or size), or `changes_missing` (some admin changes may not have
    been seen). Earlier versions wrote `sealed` and `begun` too. `removed_...` are the number, the last block and its
    link
    of the youngest segment that was ever removed.
    """

    schema: int
    time: datetime
    event: str
    detail: str = ""
    segment: int = 0
    records: int = 0
    bytes: int = 0
    removed_segment: int = 0
    removed_sequence: int = 0
    removed_link: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")] = ""


class Lines(NamedTuple):
    """Encoded entries: their number, and the number that could not be encoded."""

    data: bytes
    entries: int
    unusable: int


def event(name: str, now: float, **fields: Any) -> JournalEvent:
    """Make an event of the journal; `now` in seconds since 1970."""
    return JournalEvent(VERSION, _at(now, UTC), name, **fields)


def request_lines(records: Sequence[RequestRecord]) -> Lines:
    """Encode the lines of requests."""
    return lines(records, request_entry)


def change_lines(changes: Sequence[ChangeEntry | JournalEvent]) -> Lines:
    """Encode the lines of admin changes and of events about them."""
    return lines(changes, lambda change: change)


def event_lines(events: Sequence[JournalEvent]) -> bytes:
    """Encode the lines of the journal's events."""
    return _ENCODER.encode_lines(events)


def request_entry(record: RequestRecord) -> RequestEntry:
    """Make a request's entry from its record."""
    start, trace = record.arrived, record.trace
    return RequestEntry(
        VERSION,
        record.id,
        _at(record.wall, UTC),
        record.endpoint,
        record.outcome,
        record.status,
        record.code,
        record.detail,
        record.tenant,
        record.key_id,
        record.tier,
        record.client,
        record.model,
        record.version,
        record.asked_model,
        record.stream,
        record.sequences,
        record.request_hash,
        record.request_bytes,
        record.answer_hash,
        record.answer_characters,
        record.prompt_tokens,
        record.cached_tokens,
        record.predicted_tokens,
        record.completion_tokens,
        record.reasoning_tokens,
        record.rejected_tokens,
        record.reserved_tokens,
        record.cost_nano_usd,
        record.finish,
        record.pool,
        record.replica,
        record.policy,
        record.reason,
        record.retries,
        record.migrations,
        record.hedges,
        [VerdictEntry(*verdict) for verdict in record.verdicts] if record.verdicts else [],
        int((record.identified - start) * 1e6) if record.identified else None,
        int((record.screened - start) * 1e6) if record.screened else None,
        int((record.encoded - start) * 1e6) if record.encoded else None,
        int((record.reserved - start) * 1e6) if record.reserved else None,
        int((record.admitted - start) * 1e6) if record.admitted else None,
        int((record.sent - start) * 1e6) if record.sent else None,
        int((record.first_token - start) * 1e6) if record.first_token else None,
        int((record.last_token - start) * 1e6) if record.last_token else None,
        int((record.ended - start) * 1e6) if record.ended else None,
        record.engine_queue_us,
        record.engine_prefill_us,
        record.engine_decode_us,
        int(record.filter_seconds * 1e6),
        int(record.held_seconds * 1e6),
        trace.trace_id.hex() if trace is not None else "",
        record.shadow_of,
    )


def lines(values: Sequence[T], entry_of: Callable[[T], msgspec.Struct]) -> Lines:
    """Encode a chunk of values, all at once where every text is short and well-formed."""
    try:
        data = _ENCODER.encode_lines([entry_of(value) for value in values])
    except Exception:
        # A defect of one value shall cost neither the others nor the thread.
        data = None
    if data is not None and len(data) <= len(values) * _LONG:
        return Lines(data, len(values), 0)
    found = [line for value in values if (line := _line(value, entry_of)) is not None]
    return Lines(b"".join(found), len(found), len(values) - len(found))


def _line(value: T, entry_of: Callable[[T], msgspec.Struct]) -> bytes | None:
    """Encode a value whose texts may have any length and form; None where no line can hold its values."""
    try:
        return _ENCODER.encode(_short(msgspec.to_builtins(entry_of(value)))) + b"\n"
    except Exception:
        return None


def _short(value: Any) -> Any:
    if isinstance(value, str):
        kept = value if len(value) <= _MOST_CHARACTERS else value[:_MOST_CHARACTERS] + "..."
        # JSON has no lone surrogates.
        return kept.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_short(key): _short(each) for key, each in value.items()}
    return [_short(each) for each in value[:_MOST_ITEMS]] if isinstance(value, list) else value
