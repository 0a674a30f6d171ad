"""Messages between gateway and replica as plain values: no protobuf type leaves protos/codec.py.

They are msgspec structs: a frozen dataclass takes ten times as long to make, and each request makes several.
"""

import enum
from collections.abc import Sequence

import msgspec

from protos.features import Feature

PROTOCOL_VERSION = 5


class Role(enum.Enum):
    """The phases of a request that a replica runs."""

    BOTH = "both"
    PREFILL = "prefill"
    DECODE = "decode"

    # Every request tells candidates apart by their role, and Enum's own hash is a call in Python.
    __hash__ = object.__hash__


class FinishReason(enum.Enum):
    """Why a sequence ended; the first three are the API's, the others never reach a client as such.

    CONTENT_FILTER is the gateway's own: no engine reports it.
    """

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    CANCELLED = "cancelled"
    ERROR = "error"


class Shape(msgspec.Struct, frozen=True):
    """A replica's parallelism over GPUs: tensor, expert and pipeline parallel degrees."""

    tp: int = 1
    ep: int = 1
    pp: int = 1

    @property
    def gpus(self) -> int:
        """Return the number of GPUs. Expert parallelism splits the tensor-parallel group (TensorRT-LLM's moe_ep)."""
        return self.tp * self.pp


class ReplicaInfo(msgspec.Struct, frozen=True):
    """A replica's description of itself when a session opens.

    `max_num_tokens` is what the engine computes in one step, of prompts and answers together; 0: not known. With
    `reserves_output` a request starts only once its whole possible output has room in the KV cache. `version` is the
    served
    model's and `tokenizer_hash` its tokenizer's (gateway/text/tokens/identity.py); empty: not reported. `adapters` are
    the
    LoRA adapters that it can serve without being given their path.
    """

    model: str
    engine: str
    fingerprint: str
    shape: Shape
    role: Role
    max_batch_size: int
    max_sequence_tokens: int
    kv_block_tokens: int
    kv_blocks_total: int
    max_num_tokens: int = 0
    reserves_output: bool = False
    version: str = ""
    tokenizer_hash: str = ""
    features: Feature = Feature.TOKENS
    adapters: tuple[str, ...] = ()


class Load(msgspec.Struct, frozen=True):
    """The load of a replica's engine after a step.

    `kv_blocks_reserved` are not used yet, but set aside for running requests or wanted by waiting ones.
    `prefill_tokens` and `prefill_pairs` are what is still to be computed of prompts, less the KV cache's part: the
    tokens, and the (query, key) pairs of their attention. `steps` counts engine steps. `workers`, the gateway workers
    with a session, and `draining` are the replica server's, whatever the engine.
    """

    running: int = 0
    waiting: int = 0
    kv_blocks_used: int = 0
    kv_blocks_total: int = 0
    tokens_in_flight: int = 0
    draining: bool = False
    prefill_tokens: int = 0
    workers: int = 0
    kv_blocks_reserved: int = 0
    prefill_pairs: int = 0
    steps: int = 0


class Work(msgspec.Struct, frozen=True):
    """The work of one engine step, and its duration in microseconds.

    `sequences` gained a token each by decoding and read `context` KV tokens for it.
    """

    us: int
    prefill_tokens: int = 0
    prefill_pairs: int = 0
    sequences: int = 0
    context: int = 0


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """Parameters of the sampler; `None` leaves the engine's default, `logprobs` counts alternatives per token.

    With `prompt_logprobs` the prompt's tokens have them too.

    It and the other parts of a `Submit` are encoded by their fields' names (protos/submit_codec.py).
    """

    n: int = 1
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float | None = None
    logit_bias: dict[int, float] = {}
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: bool = False


class Handoff(msgspec.Struct, frozen=True):
    """A prefill replica's handoff to a decode replica; `opaque_state` is the engine's own."""

    opaque_state: bytes
    first_tokens: tuple[int, ...]


class Adapter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A LoRA adapter over the model; `path` is where the replica finds it, empty for one that it knows by name."""

    name: str
    path: str = ""


class GuideKind(enum.Enum):
    """The kind of text that constrains an answer."""

    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    GRAMMAR = "grammar"
    STRUCTURAL_TAG = "structural_tag"


class Guide(msgspec.Struct, frozen=True, omit_defaults=True):
    """The constraint on an answer: a schema, expression or grammar as `text`, empty for any JSON object."""

    kind: GuideKind
    text: str = ""


class Payload(msgspec.Struct, frozen=True):
    """A request in its API's own bytes, for an upstream that speaks the same API; it does not travel on sessions.

    `path` is the API's, as `/chat/completions`. `usage`: the client wants a stream's usage chunk. `answer_model` is the
    name that the answer is to show. `max_tokens` bounds each answer where the body has no bound; None: no bound.
    `at_root`: the path is the host's own, and is not appended to the base URL.
    """

    path: str
    body: bytes
    stream: bool
    usage: bool
    answer_model: str
    max_tokens: int | None = None
    at_root: bool = False


class Submit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request to an engine: `sampling.n` sequences over one prompt of token ids.

    `generated` of the prompt's last tokens were generated by an earlier attempt, and `sequence` is the index of the
    first
    answer here among the whole request's: a request that migrates continues with one submit for each sequence. `trace`
    is
    the W3C traceparent of the request's span and, after a blank, its tracestate; empty for one that is not traced. A
    replica may hold deltas back until `hold_ms` have passed since the last one it sent, or since the prompt was
    computed; all go with the finish.
    """

    request_id: str
    prompt_ids: Sequence[int]
    max_tokens: int
    sampling: Sampling = Sampling()
    generated: int = 0
    delta_interval: int = 1
    cache_salt: str = ""
    handoff: Handoff | None = None
    prefill_only: bool = False
    sequence: int = 0
    adapter: Adapter | None = None
    guide: Guide | None = None
    payload: Payload | None = None
    trace: str = ""
    hold_ms: int = 0


class Timing(msgspec.Struct, frozen=True):
    """Microseconds that a request spent queued, in prefill and in decode, by the engine's own clock."""

    queue_us: int = 0
    prefill_us: int = 0
    decode_us: int = 0


class Failure(msgspec.Struct, frozen=True):
    """Why an engine refused or lost a request; `code` is one of protos/failures.py.

    With the code `moved`, `moved_to` is the epoch of the replica that has the sequence's KV cache now.
    """

    code: str
    message: str
    param: str | None = None
    moved_to: int = 0


class TokenLogprobs(msgspec.Struct, frozen=True):
    """Log probability (natural) of one token and of its best alternatives, best first."""

    chosen: float
    top: tuple[tuple[int, float], ...] = ()


class Finish(msgspec.Struct, frozen=True):
    """The end of one sequence, with its counts.

    `prompt_logprobs`, of the prompt's tokens after the first one, come with a submit's first sequence.
    """

    reason: FinishReason
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    timing: Timing = Timing()
    failure: Failure | None = None
    handoff: Handoff | None = None
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()


class KvCreated(msgspec.Struct, frozen=True):
    """The cache was created: its size in blocks, per level."""

    blocks_per_cache_level: tuple[int, ...]


class KvStored(msgspec.Struct, frozen=True):
    """Blocks that became reusable under `parent_hash`, each (hash, token ids).

    Without a parent they begin a prompt, and `salt` is the one of its request.
    """

    parent_hash: int | None
    blocks: tuple[tuple[int, tuple[int, ...]], ...]
    salt: str = ""


class KvRemoved(msgspec.Struct, frozen=True):
    """Blocks that were evicted."""

    block_hashes: tuple[int, ...]


class KvEvent(msgspec.Struct, frozen=True):
    """One change of a replica's reusable KV blocks; ids are consecutive, a gap means loss."""

    event_id: int
    data: KvCreated | KvStored | KvRemoved


class KvUpdate(msgspec.Struct, frozen=True):
    """A change of a replica's reusable KV blocks, by prefix hash; `reset`: all earlier updates are void."""

    update_id: int
    reset: bool = False
    stored: Sequence[int] = ()
    removed: Sequence[int] = ()
