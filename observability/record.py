"""The record of one request, from which metrics, traces, the journal, the console and the log are made in batches after
the request has ended.
"""

from typing import Final, NamedTuple

import msgspec

from observability.outcome import Outcome

#: The action of a rule that came to no verdict.
FAILED: Final = "failed"


class Verdict(NamedTuple):
    """The verdict of one filter rule. `action` is `flag`, `redact`, `block`, or FAILED for a rule that was left out;
    `where` is `prompt` or `answer`.
    """

    rule: str
    action: str
    where: str
    label: str
    times: int


class TraceContext(NamedTuple):
    """W3C Trace Context, level 1: 16 and 8 bytes, flags (1: sampled), and the state that is forwarded unchanged.

    `parent_id` is empty where the trace begins here.
    """

    trace_id: bytes
    parent_id: bytes
    flags: int
    state: str


class RequestRecord(msgspec.Struct):
    """One request, of any endpoint. Filled in as the request goes on; read only after it has ended.

    Times are seconds on the monotonic clock, 0.0 where the request did not come so far; `wall` is `arrived` in seconds
    since 1970. Unknown values are empty or 0. Of prompts and answers only lengths and salted hashes are here.
    """

    id: str
    endpoint: str
    arrived: float
    wall: float
    #: Times in order: the key was checked, ...
    identified: float = 0.0
    #: ... the body was read and the prompt filters let it pass, ...
    screened: float = 0.0
    #: ... it was tokenized, ...
    encoded: float = 0.0
    #: ... its limits were reserved, ...
    reserved: float = 0.0
    #: ... it was admitted to a replica, ...
    admitted: float = 0.0
    #: ... the first submit was sent (ScaleLLM's t2), ...
    sent: float = 0.0
    #: ... the first token arrived here, ...
    first_token: float = 0.0
    #: ... the last token arrived (t3), ...
    last_token: float = 0.0
    #: ... and the answer had been sent (t5).
    ended: float = 0.0
    outcome: Outcome = Outcome.OK
    status: int = 200
    #: The error's code; empty for success.
    code: str = ""
    #: Details of failures that are not the client's fault; only operators may see them.
    detail: str = ""
    tenant: str = ""
    key_id: str = ""
    tier: str = ""
    #: The client's address, without its port.
    client: str = ""
    #: The client's name for the request, which its answer gets too; empty: `id` is used.
    client_request_id: str = ""
    #: The model that answered, or else was requested, as configured; its version as its replica reports it.
    model: str = ""
    version: str = ""
    #: The period of a rollout in which its version was drawn, as `Split.epoch`; 0: it was not.
    rollout_epoch: int = 0
    #: The same of the model that was asked for and failed, where a fallback answered; empty: it had none.
    failed_version: str = ""
    failed_epoch: int = 0
    asked_model: str = ""
    #: The id of the request whose copy this is, which a candidate answered for nobody; empty: it is a client's.
    shadow_of: str = ""
    #: It stands behind all others' requests, as a batch's do: its times are those of the room that these leave.
    background: bool = False
    stream: bool = False
    sequences: int = 1
    #: Salted hashes in hexadecimal: of the body as received, and of the answers' texts as they were shown.
    request_hash: str = ""
    request_bytes: int = 0
    answer_hash: str = ""
    answer_characters: int = 0
    prompt_tokens: int = 0
    #: The prompt's language (ISO 639-1; `und`: not known), how many tools it offers, and whether the answer declines;
    #: only of models with `drift`.
    language: str = ""
    tools: int = 0
    refused: bool = False
    cached_tokens: int = 0
    #: The part of `prompt_tokens` that the router expected in the chosen replica's cache.
    predicted_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    #: Tokens that were requested and not computed, because a limit, a filter or the admission refused.
    rejected_tokens: int = 0
    #: Tokens reserved of the limits: the prompt's and the answer's expected ones.
    reserved_tokens: int = 0
    cost_nano_usd: int = 0
    finish: str = ""
    pool: str = ""
    replica: str = ""
    policy: str = ""
    #: The reason of the routing decision, one of the policy's constants.
    reason: str = ""
    #: Submits beyond the first: after a failure before its first token, after one later, and beside a slow one.
    retries: int = 0
    migrations: int = 0
    hedges: int = 0
    #: Microseconds by the engine's own clock, of the sequence that ended last.
    engine_queue_us: int = 0
    engine_prefill_us: int = 0
    engine_decode_us: int = 0
    #: Seconds between events of a stream that carried tokens, by bucket of `observability.gaps`; empty if not streamed.
    gaps: list[int] = []
    gap_seconds: float = 0.0
    verdicts: list[Verdict] = []
    #: What was found about the answer where versions are compared, by names of `routing/rollouts/measures/events.py`.
    checks: tuple[str, ...] = ()
    #: Seconds that prompt filters took, without guards that ran while the prompt was computed.
    filter_seconds: float = 0.0
    #: The longest time that filters held back text of the answer, in seconds.
    held_seconds: float = 0.0
    trace: TraceContext | None = None
    #: The id of this request's span, 8 bytes; child spans name it as their parent.
    span_id: bytes = b""
    sampled: bool = False
