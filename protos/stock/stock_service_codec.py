"""Server side of TensorRT-LLM's own gRPC service: decode clients' requests and encode answers."""

from collections.abc import Sequence
from typing import Final

import msgspec
from google.protobuf.message import DecodeError
from smg_grpc_proto.generated import trtllm_service_pb2 as pb

from protos.features import Feature
from protos.protocol_error import ProtocolError
from protos.stock.stock_codec import GUIDES
from protos.types import Finish, FinishReason, Guide, ReplicaInfo, Sampling, Submit, TokenLogprobs

_KINDS: Final = {wire: kind for kind, wire in GUIDES.items()}
#: Finish reasons of a whole answer. The server has no others but `cancelled`, for failures are gRPC statuses.
_REASONS: Final = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.CANCELLED: "cancelled",
}
#: Fields that change the generation and that no engine here supports: they are refused, not ignored (field -> its
#: description). Stop strings are not among them (replicas/stock_service.py).
_REFUSED: Final = {
    "bad": "bad words",
    "bad_token_ids": "bad words",
    "embedding_bias": "an embedding bias",
    "lora_config": "LoRA adapters by number",
    "prompt_tuning_config": "prompt tuning",
    "multimodal_input": "images",
    "lookahead_config": "lookahead decoding",
    "disaggregated_params": "one phase of a request",
}
_REFUSED_SAMPLING: Final = ("top_p_min", "top_p_reset_ids", "top_p_decay", "no_repeat_ngram_size")


class Refused(ValueError):
    """A request that cannot be honoured here; the text is for its sender."""


class GenerateCall(msgspec.Struct, frozen=True):
    """One Generate request. `perf_metrics`: its end is to report how long each phase took."""

    submit: Submit
    streaming: bool
    perf_metrics: bool


def decode_generate(data: bytes) -> GenerateCall:
    """Decode a Generate request. Raises ProtocolError on bytes that do not parse, and Refused."""
    try:
        message = pb.GenerateRequest.FromString(data)
    except DecodeError as error:
        raise ProtocolError("not a GenerateRequest") from error
    _check(message)
    salt = str(message.cache_salt_id) if message.HasField("cache_salt_id") else ""
    submit = Submit(
        request_id=message.request_id,
        prompt_ids=list(message.tokenized.input_token_ids),
        max_tokens=message.max_tokens,
        sampling=_sampling(message),
        delta_interval=1 if message.streaming else 0,
        cache_salt=salt,
        guide=_guide(message.guided_decoding) if message.HasField("guided_decoding") else None,
    )
    return GenerateCall(submit, message.streaming, message.output_config.return_perf_metrics)


def _check(message: pb.GenerateRequest) -> None:
    if not message.HasField("tokenized"):
        raise Refused("Missing tokenized input")
    present = {field.name for field, _ in message.ListFields()}
    wrong = [what for name, what in _REFUSED.items() if name in present]
    config, output = message.sampling_config, message.output_config
    wrong += [name for name in _REFUSED_SAMPLING if config.HasField(name)]
    if config.beam_width > 1:
        wrong.append("beam search")
    if output.prompt_logprobs or output.return_context_logits or output.return_generation_logits:
        wrong.append("logprobs of the prompt and logits")
    if wrong:
        raise Refused(f"not supported here: {', '.join(dict.fromkeys(wrong))}")


def _sampling(message: pb.GenerateRequest) -> Sampling:
    m = message.sampling_config
    return Sampling(
        n=m.num_return_sequences or 1,
        temperature=m.temperature if m.HasField("temperature") else None,
        top_p=m.top_p if m.HasField("top_p") else None,
        top_k=m.top_k if m.HasField("top_k") else None,
        min_p=m.min_p if m.HasField("min_p") else None,
        # Seeds are signed on the session protocol and in the engines.
        seed=m.seed % 2**63 if m.HasField("seed") else None,
        presence_penalty=m.presence_penalty,
        frequency_penalty=m.frequency_penalty,
        repetition_penalty=m.repetition_penalty if m.HasField("repetition_penalty") else None,
        stop_token_ids=tuple(message.stop_token_ids),
        ignore_eos=message.ignore_eos,
        min_tokens=m.min_tokens,
        logprobs=message.output_config.logprobs if message.output_config.HasField("logprobs") else None,
    )


def _guide(message: pb.GuidedDecodingParams) -> Guide | None:
    kind = _KINDS.get(message.guide_type)
    # As on the stock server, a guide without text is none.
    return None if kind is None or not message.guide else Guide(kind, message.guide)


def decode_abort(data: bytes) -> str:
    """Return the id of the request to abort. Raises ProtocolError."""
    try:
        return str(pb.AbortRequest.FromString(data).request_id)
    except DecodeError as error:
        raise ProtocolError("not an AbortRequest") from error


def encode_aborted(request_id: str, *, found: bool) -> bytes:
    """Encode the answer to an Abort."""
    message = f"Request {request_id} {'aborted' if found else 'not found'}"
    return bytes(pb.AbortResponse(success=found, message=message).SerializeToString())


def encode_health(status: str) -> bytes:
    """Encode the answer to a HealthCheck."""
    return bytes(pb.HealthCheckResponse(status=status).SerializeToString())


def encode_model_info(info: ReplicaInfo) -> bytes:
    """Encode the answer to GetModelInfo. Sizes of the model itself are not known here."""
    features = [name for name, bit in (("guided_decoding", Feature.GUIDED),) if bit in info.features]
    message = pb.GetModelInfoResponse(
        model_id=info.model,
        max_input_len=info.max_sequence_tokens,
        max_seq_len=info.max_sequence_tokens,
        max_batch_size=info.max_batch_size,
        supported_features=features,
    )
    return bytes(message.SerializeToString())


def encode_server_info(info: ReplicaInfo) -> bytes:
    """Encode the answer to GetServerInfo."""
    message = pb.GetServerInfoResponse(
        version=info.version or info.fingerprint,
        backend=info.engine,
        tensor_parallel_size=info.shape.tp,
        pipeline_parallel_size=info.shape.pp,
        context_parallel_size=1,
        world_size=info.shape.gpus,
    )
    return bytes(message.SerializeToString())


def encode_chunk(
    submit: Submit,
    index: int,
    token_ids: Sequence[int],
    logprobs: Sequence[TokenLogprobs] | None,
    *,
    completion_tokens: int,
    cached_tokens: int,
) -> bytes:
    """Encode new tokens of a sequence; the counts are of all so far."""
    message = pb.GenerateResponse(request_id=submit.request_id)
    chunk = message.chunk
    chunk.token_ids.extend(token_ids)
    chunk.sequence_index = index
    chunk.prompt_tokens = len(submit.prompt_ids)
    chunk.completion_tokens = completion_tokens
    chunk.cached_tokens = cached_tokens
    if logprobs is not None:
        chunk.logprobs.extend(_logprobs(token_ids, logprobs))
    return bytes(message.SerializeToString())


def encode_complete(
    submit: Submit,
    index: int,
    token_ids: Sequence[int],
    logprobs: Sequence[TokenLogprobs] | None,
    finish: Finish,
    *,
    ended_at: float | None,
) -> bytes:
    """Encode the end of a sequence, with all of it; `ended_at`, in seconds since 1970, where its times are
    requested.
    """
    message = pb.GenerateResponse(request_id=submit.request_id)
    complete = message.complete
    complete.output_token_ids.extend(token_ids)
    complete.sequence_index = index
    complete.finish_reason = _REASONS[finish.reason]
    complete.prompt_tokens = len(submit.prompt_ids)
    complete.completion_tokens = len(token_ids)
    complete.cached_tokens = finish.cached_tokens
    if logprobs is not None:
        complete.logprobs.extend(_logprobs(token_ids, logprobs))
    if ended_at is not None:
        metrics, timing = complete.perf_metrics, finish.timing
        metrics.last_token_time = ended_at
        metrics.first_token_time = ended_at - timing.decode_us * 1e-6
        metrics.first_scheduled_time = metrics.first_token_time - timing.prefill_us * 1e-6
        metrics.arrival_time = metrics.first_scheduled_time - timing.queue_us * 1e-6
    return bytes(message.SerializeToString())


def _logprobs(token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs]) -> list[pb.TokenLogprob]:
    return [
        pb.TokenLogprob(
            token_id=token,
            logprob=entry.chosen,
            top_logprobs=[pb.TopLogprob(token_id=other, logprob=value) for other, value in entry.top],
        )
        for token, entry in zip(token_ids, logprobs, strict=True)
    ]
