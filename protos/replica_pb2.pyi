from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_BOTH: _ClassVar[Role]
    ROLE_PREFILL: _ClassVar[Role]
    ROLE_DECODE: _ClassVar[Role]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_STOP: _ClassVar[FinishReason]
    FINISH_LENGTH: _ClassVar[FinishReason]
    FINISH_CANCELLED: _ClassVar[FinishReason]
    FINISH_ERROR: _ClassVar[FinishReason]

class ReshapePhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESHAPE_PREPARE: _ClassVar[ReshapePhase]
    RESHAPE_TRANSFORM: _ClassVar[ReshapePhase]
    RESHAPE_ABORT: _ClassVar[ReshapePhase]

class MemberState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_SERVING: _ClassVar[MemberState]
    MEMBER_PARKED: _ClassVar[MemberState]
    MEMBER_PREPARED: _ClassVar[MemberState]
    MEMBER_CHANGING: _ClassVar[MemberState]

class JoinKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOIN_BEAT: _ClassVar[JoinKind]
    JOIN_HELLO: _ClassVar[JoinKind]
    JOIN_PART: _ClassVar[JoinKind]
    JOIN_GIVEN: _ClassVar[JoinKind]
    JOIN_RECEIVED: _ClassVar[JoinKind]
    JOIN_DONE: _ClassVar[JoinKind]
    JOIN_FAILED: _ClassVar[JoinKind]
ROLE_BOTH: Role
ROLE_PREFILL: Role
ROLE_DECODE: Role
FINISH_STOP: FinishReason
FINISH_LENGTH: FinishReason
FINISH_CANCELLED: FinishReason
FINISH_ERROR: FinishReason
RESHAPE_PREPARE: ReshapePhase
RESHAPE_TRANSFORM: ReshapePhase
RESHAPE_ABORT: ReshapePhase
MEMBER_SERVING: MemberState
MEMBER_PARKED: MemberState
MEMBER_PREPARED: MemberState
MEMBER_CHANGING: MemberState
JOIN_BEAT: JoinKind
JOIN_HELLO: JoinKind
JOIN_PART: JoinKind
JOIN_GIVEN: JoinKind
JOIN_RECEIVED: JoinKind
JOIN_DONE: JoinKind
JOIN_FAILED: JoinKind

class Up(_message.Message):
    __slots__ = ("hello", "submits", "cancels", "ack", "kv_resync", "reshape")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SUBMITS_FIELD_NUMBER: _ClassVar[int]
    CANCELS_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    KV_RESYNC_FIELD_NUMBER: _ClassVar[int]
    RESHAPE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    submits: _containers.RepeatedCompositeFieldContainer[Submit]
    cancels: _containers.RepeatedScalarFieldContainer[int]
    ack: int
    kv_resync: bool
    reshape: ReshapeOrder
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., submits: _Optional[_Iterable[_Union[Submit, _Mapping]]] = ..., cancels: _Optional[_Iterable[int]] = ..., ack: _Optional[int] = ..., kv_resync: _Optional[bool] = ..., reshape: _Optional[_Union[ReshapeOrder, _Mapping]] = ...) -> None: ...

class Down(_message.Message):
    __slots__ = ("welcome", "step", "membership")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    step: Step
    membership: Membership
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., step: _Optional[_Union[Step, _Mapping]] = ..., membership: _Optional[_Union[Membership, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_version", "worker", "kv_updates", "watches")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    KV_UPDATES_FIELD_NUMBER: _ClassVar[int]
    WATCHES_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    worker: str
    kv_updates: bool
    watches: bool
    def __init__(self, protocol_version: _Optional[int] = ..., worker: _Optional[str] = ..., kv_updates: _Optional[bool] = ..., watches: _Optional[bool] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol_version", "epoch", "info", "ack_window")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    ACK_WINDOW_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    epoch: int
    info: Info
    ack_window: int
    def __init__(self, protocol_version: _Optional[int] = ..., epoch: _Optional[int] = ..., info: _Optional[_Union[Info, _Mapping]] = ..., ack_window: _Optional[int] = ...) -> None: ...

class Info(_message.Message):
    __slots__ = ("model", "engine", "fingerprint", "shape", "role", "max_batch_size", "max_sequence_tokens", "kv_block_tokens", "kv_blocks_total", "max_num_tokens", "reserves_output", "version", "tokenizer_hash", "features", "adapters")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_SEQUENCE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    KV_BLOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    KV_BLOCKS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RESERVES_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_HASH_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    model: str
    engine: str
    fingerprint: str
    shape: Shape
    role: Role
    max_batch_size: int
    max_sequence_tokens: int
    kv_block_tokens: int
    kv_blocks_total: int
    max_num_tokens: int
    reserves_output: bool
    version: str
    tokenizer_hash: str
    features: int
    adapters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, model: _Optional[str] = ..., engine: _Optional[str] = ..., fingerprint: _Optional[str] = ..., shape: _Optional[_Union[Shape, _Mapping]] = ..., role: _Optional[_Union[Role, str]] = ..., max_batch_size: _Optional[int] = ..., max_sequence_tokens: _Optional[int] = ..., kv_block_tokens: _Optional[int] = ..., kv_blocks_total: _Optional[int] = ..., max_num_tokens: _Optional[int] = ..., reserves_output: _Optional[bool] = ..., version: _Optional[str] = ..., tokenizer_hash: _Optional[str] = ..., features: _Optional[int] = ..., adapters: _Optional[_Iterable[str]] = ...) -> None: ...

class Shape(_message.Message):
    __slots__ = ("tp", "ep", "pp")
    TP_FIELD_NUMBER: _ClassVar[int]
    EP_FIELD_NUMBER: _ClassVar[int]
    PP_FIELD_NUMBER: _ClassVar[int]
    tp: int
    ep: int
    pp: int
    def __init__(self, tp: _Optional[int] = ..., ep: _Optional[int] = ..., pp: _Optional[int] = ...) -> None: ...

class Submit(_message.Message):
    __slots__ = ("stream_id", "request_id", "prompt_ids", "generated", "max_tokens", "delta_interval", "cache_salt", "sampling", "handoff", "prefill_only", "sequence", "adapter", "guide", "trace", "hold_ms")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_IDS_FIELD_NUMBER: _ClassVar[int]
    GENERATED_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DELTA_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_FIELD_NUMBER: _ClassVar[int]
    PREFILL_ONLY_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    GUIDE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    request_id: str
    prompt_ids: _containers.RepeatedScalarFieldContainer[int]
    generated: int
    max_tokens: int
    delta_interval: int
    cache_salt: str
    sampling: Sampling
    handoff: Handoff
    prefill_only: bool
    sequence: int
    adapter: Adapter
    guide: Guide
    trace: str
    hold_ms: int
    def __init__(self, stream_id: _Optional[int] = ..., request_id: _Optional[str] = ..., prompt_ids: _Optional[_Iterable[int]] = ..., generated: _Optional[int] = ..., max_tokens: _Optional[int] = ..., delta_interval: _Optional[int] = ..., cache_salt: _Optional[str] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., handoff: _Optional[_Union[Handoff, _Mapping]] = ..., prefill_only: _Optional[bool] = ..., sequence: _Optional[int] = ..., adapter: _Optional[_Union[Adapter, _Mapping]] = ..., guide: _Optional[_Union[Guide, _Mapping]] = ..., trace: _Optional[str] = ..., hold_ms: _Optional[int] = ...) -> None: ...

class Adapter(_message.Message):
    __slots__ = ("name", "path")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    name: str
    path: str
    def __init__(self, name: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...

class Guide(_message.Message):
    __slots__ = ("kind", "text")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    text: str
    def __init__(self, kind: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("n", "temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "stop_token_ids", "ignore_eos", "min_tokens", "logprobs", "prompt_logprobs")
    class LogitBiasEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    N_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    n: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    logit_bias: _containers.ScalarMap[int, float]
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    ignore_eos: bool
    min_tokens: int
    logprobs: int
    prompt_logprobs: bool
    def __init__(self, n: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., seed: _Optional[int] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., logit_bias: _Optional[_Mapping[int, float]] = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., ignore_eos: _Optional[bool] = ..., min_tokens: _Optional[int] = ..., logprobs: _Optional[int] = ..., prompt_logprobs: _Optional[bool] = ...) -> None: ...

class Handoff(_message.Message):
    __slots__ = ("opaque_state", "first_tokens")
    OPAQUE_STATE_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKENS_FIELD_NUMBER: _ClassVar[int]
    opaque_state: bytes
    first_tokens: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, opaque_state: _Optional[bytes] = ..., first_tokens: _Optional[_Iterable[int]] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("seq", "time_us", "stream_ids", "counts", "tokens", "logprobs", "finishes", "load", "kv_update", "starts", "submits_seen", "work", "adapters")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TIME_US_FIELD_NUMBER: _ClassVar[int]
    STREAM_IDS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    FINISHES_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    KV_UPDATE_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    SUBMITS_SEEN_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    time_us: int
    stream_ids: _containers.RepeatedScalarFieldContainer[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    tokens: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedCompositeFieldContainer[Logprobs]
    finishes: _containers.RepeatedCompositeFieldContainer[Finish]
    load: Load
    kv_update: KvUpdate
    starts: _containers.RepeatedCompositeFieldContainer[Start]
    submits_seen: int
    work: Work
    adapters: Adapters
    def __init__(self, seq: _Optional[int] = ..., time_us: _Optional[int] = ..., stream_ids: _Optional[_Iterable[int]] = ..., counts: _Optional[_Iterable[int]] = ..., tokens: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[_Union[Logprobs, _Mapping]]] = ..., finishes: _Optional[_Iterable[_Union[Finish, _Mapping]]] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., kv_update: _Optional[_Union[KvUpdate, _Mapping]] = ..., starts: _Optional[_Iterable[_Union[Start, _Mapping]]] = ..., submits_seen: _Optional[int] = ..., work: _Optional[_Union[Work, _Mapping]] = ..., adapters: _Optional[_Union[Adapters, _Mapping]] = ...) -> None: ...

class Adapters(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("stream_id", "cached_tokens")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    cached_tokens: int
    def __init__(self, stream_id: _Optional[int] = ..., cached_tokens: _Optional[int] = ...) -> None: ...

class Logprobs(_message.Message):
    __slots__ = ("position", "chosen", "width", "top_ids", "top")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    TOP_IDS_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    position: int
    chosen: _containers.RepeatedScalarFieldContainer[float]
    width: int
    top_ids: _containers.RepeatedScalarFieldContainer[int]
    top: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, position: _Optional[int] = ..., chosen: _Optional[_Iterable[float]] = ..., width: _Optional[int] = ..., top_ids: _Optional[_Iterable[int]] = ..., top: _Optional[_Iterable[float]] = ...) -> None: ...

class Finish(_message.Message):
    __slots__ = ("stream_id", "reason", "prompt_tokens", "cached_tokens", "completion_tokens", "timing", "failure", "handoff", "prompt_logprobs")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    timing: Timing
    failure: Failure
    handoff: Handoff
    prompt_logprobs: _containers.RepeatedCompositeFieldContainer[Logprobs]
    def __init__(self, stream_id: _Optional[int] = ..., reason: _Optional[_Union[FinishReason, str]] = ..., prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., handoff: _Optional[_Union[Handoff, _Mapping]] = ..., prompt_logprobs: _Optional[_Iterable[_Union[Logprobs, _Mapping]]] = ...) -> None: ...

class Timing(_message.Message):
    __slots__ = ("queue_us", "prefill_us", "decode_us")
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    PREFILL_US_FIELD_NUMBER: _ClassVar[int]
    DECODE_US_FIELD_NUMBER: _ClassVar[int]
    queue_us: int
    prefill_us: int
    decode_us: int
    def __init__(self, queue_us: _Optional[int] = ..., prefill_us: _Optional[int] = ..., decode_us: _Optional[int] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "message", "param", "moved_to")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PARAM_FIELD_NUMBER: _ClassVar[int]
    MOVED_TO_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    param: str
    moved_to: int
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., param: _Optional[str] = ..., moved_to: _Optional[int] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("running", "waiting", "kv_blocks_used", "kv_blocks_total", "tokens_in_flight", "draining", "prefill_tokens", "workers", "kv_blocks_reserved", "prefill_pairs", "steps")
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    KV_BLOCKS_USED_FIELD_NUMBER: _ClassVar[int]
    KV_BLOCKS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    TOKENS_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    PREFILL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    KV_BLOCKS_RESERVED_FIELD_NUMBER: _ClassVar[int]
    PREFILL_PAIRS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    running: int
    waiting: int
    kv_blocks_used: int
    kv_blocks_total: int
    tokens_in_flight: int
    draining: bool
    prefill_tokens: int
    workers: int
    kv_blocks_reserved: int
    prefill_pairs: int
    steps: int
    def __init__(self, running: _Optional[int] = ..., waiting: _Optional[int] = ..., kv_blocks_used: _Optional[int] = ..., kv_blocks_total: _Optional[int] = ..., tokens_in_flight: _Optional[int] = ..., draining: _Optional[bool] = ..., prefill_tokens: _Optional[int] = ..., workers: _Optional[int] = ..., kv_blocks_reserved: _Optional[int] = ..., prefill_pairs: _Optional[int] = ..., steps: _Optional[int] = ...) -> None: ...

class Work(_message.Message):
    __slots__ = ("us", "prefill_tokens", "prefill_pairs", "sequences", "context")
    US_FIELD_NUMBER: _ClassVar[int]
    PREFILL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREFILL_PAIRS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    us: int
    prefill_tokens: int
    prefill_pairs: int
    sequences: int
    context: int
    def __init__(self, us: _Optional[int] = ..., prefill_tokens: _Optional[int] = ..., prefill_pairs: _Optional[int] = ..., sequences: _Optional[int] = ..., context: _Optional[int] = ...) -> None: ...

class KvUpdate(_message.Message):
    __slots__ = ("update_id", "reset", "stored", "removed")
    UPDATE_ID_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    update_id: int
    reset: bool
    stored: _containers.RepeatedScalarFieldContainer[int]
    removed: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, update_id: _Optional[int] = ..., reset: _Optional[bool] = ..., stored: _Optional[_Iterable[int]] = ..., removed: _Optional[_Iterable[int]] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("start", "width")
    START_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    start: int
    width: int
    def __init__(self, start: _Optional[int] = ..., width: _Optional[int] = ...) -> None: ...

class Participant(_message.Message):
    __slots__ = ("address", "gpu", "epoch")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    address: str
    gpu: int
    epoch: int
    def __init__(self, address: _Optional[str] = ..., gpu: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class ReshapeOrder(_message.Message):
    __slots__ = ("change", "phase", "group", "before", "after", "participants", "timeout_ms")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    change: int
    phase: ReshapePhase
    group: str
    before: _containers.RepeatedCompositeFieldContainer[Span]
    after: _containers.RepeatedCompositeFieldContainer[Span]
    participants: _containers.RepeatedCompositeFieldContainer[Participant]
    timeout_ms: int
    def __init__(self, change: _Optional[int] = ..., phase: _Optional[_Union[ReshapePhase, str]] = ..., group: _Optional[str] = ..., before: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., after: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., participants: _Optional[_Iterable[_Union[Participant, _Mapping]]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class Width(_message.Message):
    __slots__ = ("width", "kv_tokens", "relative_rate", "change_ms")
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    KV_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RELATIVE_RATE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_MS_FIELD_NUMBER: _ClassVar[int]
    width: int
    kv_tokens: int
    relative_rate: float
    change_ms: int
    def __init__(self, width: _Optional[int] = ..., kv_tokens: _Optional[int] = ..., relative_rate: _Optional[float] = ..., change_ms: _Optional[int] = ...) -> None: ...

class Membership(_message.Message):
    __slots__ = ("group", "gpus", "gpu", "state", "span", "change", "failure", "served_by", "widths", "info", "revision")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    SERVED_BY_FIELD_NUMBER: _ClassVar[int]
    WIDTHS_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    group: str
    gpus: int
    gpu: int
    state: MemberState
    span: Span
    change: int
    failure: str
    served_by: int
    widths: _containers.RepeatedCompositeFieldContainer[Width]
    info: Info
    revision: int
    def __init__(self, group: _Optional[str] = ..., gpus: _Optional[int] = ..., gpu: _Optional[int] = ..., state: _Optional[_Union[MemberState, str]] = ..., span: _Optional[_Union[Span, _Mapping]] = ..., change: _Optional[int] = ..., failure: _Optional[str] = ..., served_by: _Optional[int] = ..., widths: _Optional[_Iterable[_Union[Width, _Mapping]]] = ..., info: _Optional[_Union[Info, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class Join(_message.Message):
    __slots__ = ("kind", "change", "span", "group", "gpu", "epoch", "part", "failure")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    kind: JoinKind
    change: int
    span: Span
    group: str
    gpu: int
    epoch: int
    part: bytes
    failure: str
    def __init__(self, kind: _Optional[_Union[JoinKind, str]] = ..., change: _Optional[int] = ..., span: _Optional[_Union[Span, _Mapping]] = ..., group: _Optional[str] = ..., gpu: _Optional[int] = ..., epoch: _Optional[int] = ..., part: _Optional[bytes] = ..., failure: _Optional[str] = ...) -> None: ...
