"""Client side of TensorRT-LLM's own gRPC service: encode requests and decode answers to plain values.

The messages are those of the package smg-grpc-proto; the server's use of each field was read in TensorRT-LLM's
sources (tensorrt_llm/grpc/smg, 1.3).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
from google.protobuf.message import DecodeError
from smg_grpc_proto.generated import trtllm_service_pb2 as pb

from protos.packed_ids import PackedIds
from protos.protocol_error import ProtocolError
from protos.types import Failure, Finish, FinishReason, Guide, GuideKind, Sampling, Submit, Timing, TokenLogprobs

SERVICE: Final = "trtllm.TrtllmService"
GENERATE: Final = f"/{SERVICE}/Generate"
ABORT: Final = f"/{SERVICE}/Abort"
HEALTH: Final = f"/{SERVICE}/HealthCheck"
MODEL_INFO: Final = f"/{SERVICE}/GetModelInfo"
SERVER_INFO: Final = f"/{SERVICE}/GetServerInfo"
#: Bytes that the stock server receives and sends in one message.
MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
#: HealthCheck's status of a healthy engine; any other one describes the problem.
HEALTHY: Final = "OK"
#: The bytes of a request without fields.
EMPTY: Final = b""

GUIDES: Final = {
    GuideKind.JSON_OBJECT: pb.GuidedDecodingParams.GUIDE_TYPE_JSON,
    GuideKind.JSON_SCHEMA: pb.GuidedDecodingParams.GUIDE_TYPE_JSON_SCHEMA,
    GuideKind.REGEX: pb.GuidedDecodingParams.GUIDE_TYPE_REGEX,
    GuideKind.GRAMMAR: pb.GuidedDecodingParams.GUIDE_TYPE_EBNF_GRAMMAR,
    GuideKind.STRUCTURAL_TAG: pb.GuidedDecodingParams.GUIDE_TYPE_STRUCTURAL_TAG,
}
#: The text of a guide to any JSON object: the server ignores a guide whose text is empty.
_ANY_JSON: Final = "json_object"
#: The engine's finish reasons; any other reason is a failure of the request.
_REASONS: Final = {
    "stop": FinishReason.STOP,
    "stop_word": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "cancelled": FinishReason.CANCELLED,
}


class ModelInfo(msgspec.Struct, frozen=True):
    """A server's description of its model; 0 and empty where unknown. `name` is its path, or its served name."""

    name: str
    max_input_tokens: int = 0
    max_sequence_tokens: int = 0
    max_batch_size: int = 0
    features: tuple[str, ...] = ()


class ServerInfo(msgspec.Struct, frozen=True):
    """A server's description of itself; `version` is TensorRT-LLM's."""

    version: str
    backend: str
    tp: int = 1
    pp: int = 1


@dataclass(slots=True)
class Part:
    """One message's part of one sequence: new tokens, with logprobs if requested, and perhaps its end."""

    index: int
    token_ids: list[int]
    cached_tokens: int
    logprobs: list[TokenLogprobs] | None = None
    finish: Finish | None = None


def encode_generate(submit: Submit, request_id: str) -> bytes:
    """Encode a request under an id of its own. Raises ValueError or TypeError on values that do not fit the wire.

    Fields that the server ignores are left out: adapters, salts, and handoffs.
    """
    sampling = submit.sampling
    # Set field by field: the constructors take five times as long.
    message = pb.GenerateRequest()
    message.request_id = request_id
    ids, tokenized = submit.prompt_ids, message.tokenized
    if type(ids) is PackedIds:
        tokenized.MergeFromString(ids.field(pb.TokenizedInput.INPUT_TOKEN_IDS_FIELD_NUMBER))
    else:
        tokenized.input_token_ids.extend(ids)
    message.max_tokens = submit.max_tokens
    message.streaming = submit.delta_interval == 1  # the server has nothing in between every token and all of them
    if sampling.stop_token_ids:
        message.stop_token_ids.extend(sampling.stop_token_ids)
    message.ignore_eos = sampling.ignore_eos
    _put_sampling(message.sampling_config, sampling)
    message.output_config.exclude_input_from_output = True
    message.output_config.return_perf_metrics = True
    if sampling.logprobs is not None:
        # With 0 alternatives some versions make no logprobs at all.
        message.output_config.logprobs = max(1, sampling.logprobs)
    if submit.guide is not None:
        _put_guide(message.guided_decoding, submit.guide)
    return bytes(message.SerializeToString())


def _put_sampling(message: pb.SamplingConfig, sampling: Sampling) -> None:
    message.beam_width = 1
    message.num_return_sequences = sampling.n
    # Unset fields keep the server's defaults.
    if sampling.temperature is not None:
        message.temperature = sampling.temperature
    if sampling.top_p is not None:
        message.top_p = sampling.top_p
    if sampling.top_k is not None:
        message.top_k = sampling.top_k
    if sampling.min_p is not None:
        message.min_p = sampling.min_p
    if sampling.seed is not None:
        message.seed = sampling.seed % 2**64
    if sampling.repetition_penalty is not None:
        message.repetition_penalty = sampling.repetition_penalty
    if sampling.presence_penalty:
        message.presence_penalty = sampling.presence_penalty
    if sampling.frequency_penalty:
        message.frequency_penalty = sampling.frequency_penalty
    if sampling.min_tokens:
        message.min_tokens = sampling.min_tokens


def _put_guide(message: pb.GuidedDecodingParams, guide: Guide) -> None:
    message.guide_type = GUIDES[guide.kind]
    message.guide = guide.text or _ANY_JSON


def encode_abort(request_id: str) -> bytes:
    """Encode the request that aborts another one."""
    return bytes(pb.AbortRequest(request_id=request_id).SerializeToString())


def decode_health(data: bytes) -> str:
    """Return the status of a health check. Raises ProtocolError."""
    try:
        return str(pb.HealthCheckResponse.FromString(data).status)
    except DecodeError as error:
        raise ProtocolError("not a HealthCheckResponse") from error


def decode_model_info(data: bytes) -> ModelInfo:
    """Decode the answer to GetModelInfo. Raises ProtocolError."""
    try:
        m = pb.GetModelInfoResponse.FromString(data)
    except DecodeError as error:
        raise ProtocolError("not a GetModelInfoResponse") from error
    return ModelInfo(
        m.model_id, m.max_input_len, m.max_seq_len or m.max_input_len, m.max_batch_size, tuple(m.supported_features)
    )


def decode_server_info(data: bytes) -> ServerInfo:
    """Decode the answer to GetServerInfo. Raises ProtocolError."""
    try:
        m = pb.GetServerInfoResponse.FromString(data)
    except DecodeError as error:
        raise ProtocolError("not a GetServerInfoResponse") from error
    return ServerInfo(m.version, m.backend, m.tensor_parallel_size or 1, m.pipeline_parallel_size or 1)


class AnswerReader:
    """Read the messages of one Generate call, whose chunks are deltas and whose ends repeat the whole sequence.

    A stop word found late takes back tokens that a chunk has brought: those stay.
    """

    __slots__ = ("_left", "_limit", "_logprobs", "_sent", "_several")

    def __init__(self, submit: Submit) -> None:
        self._sent = [0] * submit.sampling.n  # tokens received, by sequence
        self._left = set(range(submit.sampling.n))
        self._limit = submit.max_tokens
        self._several = submit.sampling.n > 1
        self._logprobs = submit.sampling.logprobs

    @property
    def left(self) -> set[int]:
        """Return the number of sequences that have not ended."""
        return self._left

    def read(self, data: bytes) -> Part:
        """Decode a message; called once per token. Raises ProtocolError on a message that cannot be part of an
        answer.
        """
        try:
            message = pb.GenerateResponse.FromString(data)
        except DecodeError as error:
            raise ProtocolError("not a GenerateResponse") from error
        if message.HasField("chunk"):
            chunk = message.chunk
            token_ids = list(chunk.token_ids)
            part = Part(chunk.sequence_index, token_ids, chunk.cached_tokens)
            if token_ids:
                self._take(part, chunk.logprobs)
            return part
        if message.HasField("complete"):
            return self._complete(message.complete)
        raise ProtocolError("a GenerateResponse without chunk and complete")

    def _take(self, part: Part, logprobs: Iterable[pb.TokenLogprob]) -> None:
        """Count a part's tokens, and attach their logprobs."""
        index = part.index
        if index not in self._left:
            raise ProtocolError(f"tokens of sequence {index}, which is not open")
        sent = self._sent[index] + len(part.token_ids)
        if sent > self._limit:
            raise ProtocolError(f"{sent} tokens, where {self._limit} were asked for")
        self._sent[index] = sent
        if self._logprobs is not None:
            part.logprobs = [_logprobs(entry, self._logprobs) for entry in logprobs]
            if len(part.logprobs) != len(part.token_ids):
                raise ProtocolError(f"{len(part.logprobs)} logprobs for {len(part.token_ids)} tokens")

    def _complete(self, message: pb.GenerateComplete) -> Part:
        index = message.sequence_index
        if index not in self._left:
            raise ProtocolError(f"the end of sequence {index}, which is not open")
        known = self._sent[index]
        part = Part(index, list(message.output_token_ids[known:]), message.cached_tokens)
        if part.token_ids:
            self._take(part, message.logprobs[known:])
        self._left.discard(index)
        tokens = self._sent[index]
        # Of several sequences the engine knows only why the last one ended, and the server calls all others a stop.
        guessed = not message.finish_reason or (self._several and message.finish_reason == "stop")
        part.finish = _finish(message, tokens, cut=guessed and tokens >= self._limit)
        return part


def _finish(message: pb.GenerateComplete, tokens: int, *, cut: bool) -> Finish:
    """Make the end of a sequence. `cut`: it has reached its token limit, and no other reason to end is known."""
    said = "length" if cut else message.finish_reason
    # An engine that ends without a reason was not interrupted: earlier servers called that a stop.
    reason = _REASONS.get(said, FinishReason.ERROR) if said else FinishReason.STOP
    failure = None
    if reason is FinishReason.ERROR:
        failure = Failure("engine_error", f"the request ended with {said[:100]}")
    timing = Timing()
    if message.HasField("perf_metrics"):
        timing = _timing(message.perf_metrics)
    return Finish(reason, message.prompt_tokens, message.cached_tokens, tokens, timing, failure)


def _timing(metrics: pb.PerfMetrics) -> Timing:
    arrived, begun = metrics.arrival_time, metrics.first_scheduled_time
    first, last = metrics.first_token_time, metrics.last_token_time
    return Timing(_micros(arrived, begun), _micros(begun, first), _micros(first, last))


def _micros(start: float, end: float) -> int:
    """Return the microseconds between two times in seconds; 0 where one of them is not known."""
    known = 0.0 < start <= end < 1e15
    return round((end - start) * 1e6) if known else 0


def _logprobs(entry: pb.TokenLogprob, alternatives: int) -> TokenLogprobs:
    top = sorted(((top.token_id, top.logprob) for top in entry.top_logprobs), key=_by_logprob)
    return TokenLogprobs(entry.logprob, tuple(top[:alternatives]))


def _by_logprob(alternative: tuple[int, float]) -> float:
    return -alternative[1]
